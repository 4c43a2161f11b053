"""Gates: which earlier steps the next decision needs, as the recurrent state sees it.

An earlier step is told by what was done and what came of it (the embeddings that the state model
read them by), and by facts that hold in any world: which asked words it says or showed, how long
ago it was, whether it was done again. How far things are now, what is looked for and what is done,
is the state's to know: a small network compares the two. Trained by ``stategate train gates``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.query import readout_of
from stategate.nodes.models.small import load_trained, small_inference
from stategate.nodes.protocols import ContextRequest, Embedder, Vector
from stategate.nodes.retrieval.align import wish_of
from stategate.stores.errors import UserError
from stategate.stores.text import one_line, overlap, words_of

if TYPE_CHECKING:
    from torch import nn

    from stategate.nodes.resources import Resources

#: What is told of an earlier step beside its texts. Only append: checkpoints hold a weight for each.
FACTS = (
    "says thing",
    "showed thing",
    "says value",
    "showed value",
    "says property",
    "age",
    "is last",
    "done again later",
    "place",
    "is start",
)
#: From a request and its earlier steps to how likely each is needed, by the chunk's id.
Gates = Callable[[ContextRequest, Sequence[Chunk]], dict[str, float]]


def facts_of(request: ContextRequest, past: Sequence[Chunk]) -> Vector:
    """Return the facts (n, len(FACTS)) of earlier steps, oldest first."""
    wish = wish_of(request.view, request.instruction)
    thing, value = tuple(wish.words), tuple(wish.value_words)
    quality = [w for c in wish.clauses if c.role == "property" for w in words_of(c.text)]
    steps = [str(chunk.data["action"]) for chunk in past]
    rows = np.zeros((len(past), len(FACTS)), dtype=np.float32)
    for i, (chunk, step) in enumerate(zip(past, steps, strict=True)):
        answer = str(chunk.data["outcome"])
        rows[i] = (
            _said(thing, step),
            _said(thing, answer),
            _said(value, step),
            _said(value, answer),
            _said(quality, step),
            1 / (len(past) - i),
            float(i == len(past) - 1),
            float(step in steps[i + 1 :]),
            i / len(past),
            float(not step),
        )
    return rows


def texts_of(request: ContextRequest, past: Sequence[Chunk]) -> list[tuple[str, str]]:
    """Return (what was done, what came of it) of earlier steps, as the state model read them."""
    return [
        (
            str(chunk.data["action"]) or "start",
            request.view.gist(str(chunk.data["outcome"]), request.instruction) or "nothing",
        )
        for chunk in past
    ]


def vectors_of(embedder: Embedder, texts: Sequence[tuple[str, str]]) -> Vector:
    """Return the embeddings (n, 2 x d_text) of what was done and what came of it."""
    rows = embedder.embed([one_line(text) for pair in texts for text in pair])
    return rows.reshape(len(texts), -1)


def make_gates(d_state: int, d_text: int, facts: int, hidden: int = 96) -> "nn.Module":
    """Return untrained gates: readout (…, d_state), texts (…, n, 2 d_text), facts, to logits (…, n)."""
    import torch
    from torch import Tensor, nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = nn.Sequential(nn.LayerNorm(d_state), nn.Linear(d_state, hidden))
            self.step = nn.Sequential(nn.Dropout(0.3), nn.Linear(2 * d_text, hidden))
            self.facts = nn.Linear(facts, hidden)
            self.score = nn.Sequential(
                nn.GELU(), nn.Linear(hidden, hidden // 2), nn.GELU(), nn.Linear(hidden // 2, 1)
            )
            # Readouts of other moments: what a shuffled state is drawn from.
            self.register_buffer("others", torch.zeros(_OTHERS, d_state))

        def forward(self, readout: Tensor, texts: Tensor, given: Tensor) -> Tensor:
            known = self.state(readout).unsqueeze(-2)
            told = self.step(texts) + self.facts(given)
            logits: Tensor = self.score(known + told + known * told).squeeze(-1)
            return logits

    return Network()


_OTHERS = 64


def trained_gates(resources: "Resources", checkpoint: str, state: str) -> Gates:
    """Load gates. ``state`` is "own", or a control: "shuffled" (another moment's).

    A checkpoint that was trained without a state needs no updater. Raises ``UserError`` for a mismatch.
    """
    import torch

    updater = resources.updater
    embedder = resources.embedder
    network, meta = load_trained(
        checkpoint, "gates", make_gates, embedder=(embedder.name, "set its embedder")
    )
    needs = meta.get("state_sha256")
    if needs and getattr(updater, "fingerprint", None) != needs:
        raise UserError(
            f"checkpoint '{checkpoint}' was trained on state model '{meta.get('state_name')}': set "
            f"updater.kind={meta.get('state')}, updater.checkpoint to it, or train gates again"
        )
    size = int(meta["architecture"]["d_state"])

    def gates(request: ContextRequest, past: Sequence[Chunk]) -> dict[str, float]:
        if not past:
            return {}
        readout = np.zeros(size, dtype=np.float32)
        if needs:
            readout = readout_of(request, updater)  # type: ignore[arg-type]
        with small_inference():
            known = torch.from_numpy(readout)
            if state == "shuffled":
                known = network.others[_draw(request)]  # type: ignore[index]
            vectors = torch.from_numpy(vectors_of(embedder, texts_of(request, past)))
            logits = network(known, vectors, torch.from_numpy(facts_of(request, past)))
            chances = logits.sigmoid().tolist()
        return {chunk.id: float(p) for chunk, p in zip(past, chances, strict=True)}

    return gates


def _draw(request: ContextRequest) -> int:
    """Return a number that is the same for the same request."""
    import hashlib

    text = f"{request.instruction} {len(request.events)} {request.observation.text}"
    return (
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") % _OTHERS
    )


def _said(wanted: Sequence[str], text: str) -> float:
    return overlap(wanted, text) if wanted and text else 0.0


def chosen_by(gates: Mapping[str, float], threshold: float) -> dict[str, float]:
    """Return the earlier steps that are to be shown, with how likely they are needed."""
    return {key: chance for key, chance in gates.items() if chance >= threshold}
