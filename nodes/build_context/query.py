"""From the recurrent state to a query vector in the embedder's space.

``query_proj`` adds what the state knows to the instruction's own embedding, which the state need not
carry: ``q = unit(g(s) * e(instruction) + P(s))``. Chunks keep their frozen embeddings, so a source's
vector search serves any query. Frozen sentence embeddings hardly tell look-alike products apart, so the
state also says how much shared words count: ``score = cos(q, chunk) + l(s) * share of asked words``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from nodes.act.reading import overlap, read_wish, words_of
from nodes.build_context.query_rag import FRAME
from nodes.build_context.render import describe
from nodes.protocols import Chunk, ContextRequest, Vector
from nodes.update_state.action_classes import ACTION_CLASSES
from stores.errors import UserError

if TYPE_CHECKING:
    from torch import nn

    from nodes.resources import Resources
    from nodes.update_state.updater import StateUpdater

#: From a request to a unit query vector (d_text,) and the weight of shared words.
Query = Callable[[ContextRequest], tuple[Vector, float]]

#: What the chunk of each action class reads like; the wish itself stands for products.
PROTOTYPES = {
    "search": "Search bar: search[<query>]",
    "option": "Option color: | Option size:",
    "buy": "Buttons: description | features | reviews | buy now",
    "details": "Buttons: description | features | reviews | buy now",
    "page": "Page 1 (Total results: 50). Buttons: back to search | next >",
    "back": "Buttons: back to search | < prev",
}


def make_projection(d_state: int, d_text: int, hidden: int = 384) -> "nn.Module":
    """Return an untrained ``query_proj``: (readout, instruction embedding) to unit queries."""
    import torch
    from torch import Tensor, nn

    class QueryProjection(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Sequential(
                nn.LayerNorm(d_state), nn.Linear(d_state, hidden), nn.GELU(),
                nn.Linear(hidden, d_text),
            )  # fmt: skip
            self.gate = nn.Sequential(nn.LayerNorm(d_state), nn.Linear(d_state, d_text))
            self.words = nn.Sequential(
                nn.LayerNorm(d_state), nn.Linear(d_state, 32), nn.GELU(), nn.Linear(32, 1),
                nn.Softplus(),
            )  # fmt: skip

        def forward(self, readout: Tensor, instruction: Tensor) -> Tensor:
            mixed = 2 * torch.sigmoid(self.gate(readout)) * instruction + self.project(readout)
            return nn.functional.normalize(mixed, dim=-1)

        def word_weight(self, readout: Tensor) -> Tensor:
            """Return l(s) (…,), how much the share of asked words counts beside the cosine."""
            weight: Tensor = self.words(readout).squeeze(-1)
            return weight

    return QueryProjection()


def needs_state(resources: "Resources", kind: str) -> "StateUpdater":
    """Return the learned updater that ``kind`` leans on. Raises ``UserError`` where there is none."""
    updater = resources.updater
    if updater is None or not hasattr(updater, "fingerprint"):
        raise UserError(
            f"context.kind={kind} reads the recurrent state: set updater.kind=gru (or ssm)"
        )
    return updater  # type: ignore[return-value]


def shared_words(instruction: str, text: str) -> float:
    """Return the share (0 to 1) of the asked stems, option values included, that ``text`` holds."""
    wish = read_wish(instruction)
    values = [word for _, value in wish.options for word in words_of(value)]
    asked = tuple(dict.fromkeys((*wish.words, *values)))
    return overlap(asked, text) if asked else 0.0


def rank_by(
    request: ContextRequest, query: "Query", top_k: int
) -> tuple[list[Chunk], dict[str, float]]:
    """Return the ``top_k`` chunks by the query's score, and the score of every candidate.

    Vector search proposes candidates (all chunks of a page, the nearest of a corpus), shared words
    rank them again.
    """
    vector, weight = query(request)
    found = request.source.search(vector, max(len(request.source.all()), 4 * top_k))
    scored = [
        (
            chunk,
            score + (weight * shared_words(request.instruction, describe(chunk)) if weight else 0),
        )
        for chunk, score in found
        if chunk.kind not in FRAME
    ]
    scored.sort(key=lambda pair: -pair[1])
    return [chunk for chunk, _ in scored[:top_k]], {chunk.id: score for chunk, score in scored}


def trained_query(resources: "Resources", checkpoint: str, kind: str) -> "Query":
    """Load ``query_proj``; return the function from a request to a unit vector and a word weight.

    Raises ``UserError`` if the checkpoint was trained for another updater or embedder.
    """
    import torch

    from stores.weights import load_weights, require_match

    updater = needs_state(resources, kind)
    name = checkpoint or f"retriever-{updater.model.kind}"
    tensors, meta = load_weights(name, "retriever")
    require_match(name, meta, "embedder", resources.embedder.name, "set its embedder")
    fix = "train it again for this state model (python -m trainers.retriever)"
    require_match(name, meta, "state_sha256", updater.fingerprint, fix)
    projection = make_projection(**meta["architecture"])
    projection.load_state_dict(tensors)
    projection.eval()

    def query(request: ContextRequest) -> tuple[Vector, float]:
        wish = resources.embedder.embed([request.instruction])
        with torch.inference_mode():
            readout = torch.from_numpy(readout_of(request, updater))
            found: Vector = projection(readout, torch.from_numpy(wish[0])).numpy()
            weight = float(projection.word_weight(readout))  # type: ignore[operator]
        return found, weight

    return query


def zero_shot_query(resources: "Resources", kind: str) -> "Query":
    """Return a query from phase 1 alone: the foreseen action classes, each by its prototype."""
    updater = needs_state(resources, kind)

    def query(request: ContextRequest) -> tuple[Vector, float]:
        chances = updater.predict(readout_of(request, updater))
        wish, *rest = resources.embedder.embed([request.instruction, *PROTOTYPES.values()])
        return mix_prototypes(chances, wish, dict(zip(PROTOTYPES, rest, strict=True))), 0.0

    return query


def mix_prototypes(chances: dict[str, float], wish: Vector, known: dict[str, Any]) -> Vector:
    """Return the unit vector of expected prototypes under the class probabilities."""
    mixed = sum(chances[name] * known.get(name, wish) for name in ACTION_CLASSES)
    return np.asarray(mixed / (np.linalg.norm(mixed) or 1.0), dtype=np.float32)


def readout_of(request: ContextRequest, updater: "StateUpdater") -> Vector:
    """Return the state's readout (d_state,), zeros where no event was read yet."""
    if request.state is None:
        return np.zeros(updater.model.d_state, dtype=np.float32)
    return np.asarray(request.state[-updater.model.d_state :], dtype=np.float32)
