"""What trained networks read in the recurrent state: ``retrieve``'s query, ``compress``'s allocator.

``query_proj`` adds what the state knows to the instruction's own embedding, which the state need not
carry: ``q = unit(g(s) * e(instruction) + P(s))``. Chunks keep their frozen embeddings, so a source's
vector search serves any query. Frozen sentence embeddings hardly tell look-alike chunks apart, so the
state also weighs what they and the wish have in common: ``score = cos(q, chunk) + w(s) . match(chunk)``
(see ``nodes.retrieval.align``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.assemble import FramedContext, assemble
from stategate.nodes.models.small import load_trained, small_inference
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest, Vector
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.align import FEATURES, match
from stategate.nodes.retrieval.page import describe
from stategate.stores.errors import UserError
from stategate.stores.traces import Event

if TYPE_CHECKING:
    from torch import nn

    from stategate.nodes.update_state.learned import StateUpdater

#: From a request to a unit query vector (d_text,) and a weight for each match feature.
Query = Callable[[ContextRequest], tuple[Vector, Vector]]


class Retrieve(FramedContext):
    """Show the ``top_k`` chunks by ``query_proj(state)``, in page order.

    Nothing protects affordances: what the state does not expect to need can be lost.
    """

    hint: ClassVar[str] = "only the parts that a learned memory of the episode points to"
    kind: Literal["retrieve"] = "retrieve"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep")
    checkpoint: str = Field(
        default="",
        description="of stategate train retriever; '' is the one that ships for the updater",
    )

    def checkpoints(self, updater: str) -> tuple[str, ...]:
        """Name the projection."""
        return (self.checkpoint or f"retriever-{updater}",)

    def build(self, resources: Resources) -> ContextBuilder:
        """Load the projection. Raises ``UserError`` without an updater, or with another one's."""
        query = trained_query(resources, self.checkpoint, self.kind)

        def build_context(request: ContextRequest) -> BuiltContext:
            shown, scores = rank_by(request, query, self.top_k)
            return assemble(request, shown, scores, history=self.history)

        return build_context


def make_projection(
    d_state: int, d_text: int, hidden: int = 384, features: int = len(FEATURES)
) -> "nn.Module":
    """Return an untrained ``query_proj``: (readout, instruction embedding) to unit queries."""
    import torch
    from torch import Tensor, nn

    class QueryProjection(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Sequential(
                nn.LayerNorm(d_state),
                nn.Linear(d_state, hidden),
                nn.GELU(),
                nn.Linear(hidden, d_text),
            )
            self.gate = nn.Sequential(nn.LayerNorm(d_state), nn.Linear(d_state, d_text))
            self.features = nn.Sequential(
                nn.LayerNorm(d_state), nn.Linear(d_state, 64), nn.GELU(), nn.Linear(64, features)
            )

        def forward(self, readout: Tensor, instruction: Tensor) -> Tensor:
            mixed = 2 * torch.sigmoid(self.gate(readout)) * instruction + self.project(readout)
            return nn.functional.normalize(mixed, dim=-1)

        def feature_weights(self, readout: Tensor) -> Tensor:
            """Return w(s) (…, features), how much each match feature counts beside the cosine."""
            weights: Tensor = self.features(readout)
            return weights

    return QueryProjection()


def needs_state(resources: Resources, kind: str) -> "StateUpdater":
    """Return the learned updater that ``kind`` leans on. Raises ``UserError`` where there is none."""
    updater = resources.updater
    if updater is None or not hasattr(updater, "fingerprint"):
        raise UserError(
            f"context.kind={kind} reads the recurrent state: set updater.kind=gru (or ssm)"
        )
    return updater  # type: ignore[return-value]


def rank_by(
    request: ContextRequest, query: Query, top_k: int
) -> tuple[list[Chunk], dict[str, float]]:
    """Return the ``top_k`` chunks by the query's score, and the score of every candidate.

    Vector search proposes candidates (all chunks of a page, the nearest of a corpus), match features
    rank them again.
    """
    vector, weights = query(request)
    order = {chunk.id: place for place, chunk in enumerate(request.source.all())}
    candidates = request.source.search(vector, max(len(order), 4 * top_k))
    candidates = sorted(
        (pair for pair in candidates if pair[0].role != "frame"),
        key=lambda pair: order.get(pair[0].id, len(order)),
    )
    chunks = [chunk for chunk, _ in candidates]
    scores = np.array([score for _, score in candidates], dtype=np.float64)
    if chunks and weights.any():
        done = done_in(request.events)
        scores += match(request.view, request.instruction, chunks, done) @ weights
    ranked = sorted(range(len(chunks)), key=lambda i: -scores[i])
    by_id = {chunks[i].id: float(scores[i]) for i in ranked}
    return [chunks[i] for i in ranked[:top_k]], by_id


def done_in(events: Sequence[Event]) -> frozenset[str]:
    """Return the actions among ``events``, in lower case."""
    return frozenset(event.text.lower() for event in events if event.kind == "ACT")


def trained_query(resources: Resources, checkpoint: str, kind: str) -> Query:
    """Load ``query_proj``; return the function from a request to a unit vector and feature weights.

    Raises ``UserError`` if the checkpoint was trained for another updater or embedder.
    """
    import torch

    updater, projection = trained_head(resources, checkpoint, kind, "retriever", make_projection)

    def query(request: ContextRequest) -> tuple[Vector, Vector]:
        wish = resources.embedder.embed([request.instruction])
        with small_inference():
            readout = torch.from_numpy(readout_of(request, updater))
            vector: Vector = projection(readout, torch.from_numpy(wish[0])).numpy()
            weights: Vector = projection.feature_weights(readout).numpy()  # type: ignore[operator]
        return vector, weights

    return query


def trained_head(
    resources: Resources, checkpoint: str, kind: str, role: str, make: "Callable[..., nn.Module]"
) -> "tuple[StateUpdater, nn.Module]":
    """Return the learned updater and the network that reads its state, from a checkpoint of ``role``.

    Raises ``UserError`` where it was trained for another updater or embedder.
    """
    updater = needs_state(resources, kind)
    name = checkpoint or f"{role}-{updater.model.kind}"
    fix = f"train it again for this state model (stategate train {role})"
    checks = {"embedder": (resources.embedder.name, "set its embedder")}
    checks |= {"state_sha256": (updater.fingerprint, fix)}
    return updater, load_trained(name, role, make, **checks)[0]


def readout_of(request: ContextRequest, updater: "StateUpdater") -> Vector:
    """Return the state's readout (d_state,), zeros where no event was read yet."""
    if request.state is None:
        return np.zeros(updater.model.d_state, dtype=np.float32)
    return np.asarray(request.state[-updater.model.d_state :], dtype=np.float32)


# Allocators ---------------------------------------------------------------------------------------
# How much of the room for detail each chunk gets, as weights. A weight says nothing about the budget,
# so the same weights serve every budget (which is what makes ``compress`` monotone): of the tokens that
# are left, a chunk gets its share of the weights until all of it is shown.

#: From the request and its chunks to a positive weight each.
Allocator = Callable[[ContextRequest, Sequence[Chunk]], dict[str, float]]
_LOWEST, _HIGHEST = 0.05, 20.0


def uniform(request: ContextRequest, chunks: Sequence[Chunk]) -> dict[str, float]:
    """Give every chunk the same."""
    return {chunk.id: 1.0 for chunk in chunks}


def learned(resources: Resources, checkpoint: str, kind: str) -> Allocator:
    """Load a checkpoint of ``stategate train allocator``. Raises ``UserError`` for a mismatch."""
    import torch

    updater, weigher = trained_head(resources, checkpoint, kind, "allocator", make_weigher)

    def allocate(request: ContextRequest, chunks: Sequence[Chunk]) -> dict[str, float]:
        texts = [describe(request.view, chunk) for chunk in chunks]
        rows = resources.embedder.embed([request.instruction, *texts])
        with small_inference():
            readout = torch.from_numpy(readout_of(request, updater))
            vectors = torch.from_numpy(rows)
            logits = weigher(readout, vectors[0], vectors[1:].unsqueeze(0)).squeeze(0)
            weights = logits.softmax(-1).tolist()
        return normalised({c.id: w for c, w in zip(chunks, weights, strict=True)})

    return allocate


def normalised(raw: Mapping[str, float]) -> dict[str, float]:
    """Scale to a mean of one, within bounds, so that nobody starves and nobody takes all."""
    mean = sum(raw.values()) / len(raw) if raw else 1.0
    if mean <= 0:
        return dict.fromkeys(raw, 1.0)
    return {key: min(max(value / mean, _LOWEST), _HIGHEST) for key, value in raw.items()}


def make_weigher(d_state: int, d_text: int, hidden: int = 192) -> "nn.Module":
    """Return an untrained weigher: (readout, instruction, chunks (B, n, d_text)) to logits (B, n)."""
    import torch
    from torch import Tensor, nn

    class Weigher(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Sequential(
                nn.LayerNorm(d_state),
                nn.Linear(d_state, hidden),
                nn.GELU(),
                nn.Linear(hidden, d_text),
            )
            self.context = nn.Linear(d_state, hidden)
            self.chunk = nn.Linear(2 * d_text, hidden)
            self.score = nn.Sequential(nn.GELU(), nn.Linear(hidden, 1))
            self.scale = nn.Parameter(torch.tensor([10.0, 10.0]))

        def forward(self, readout: Tensor, instruction: Tensor, chunks: Tensor) -> Tensor:
            readout = readout.view(-1, readout.shape[-1])
            wish = instruction.view(-1, 1, instruction.shape[-1])
            query = nn.functional.normalize(self.query(readout), dim=-1).unsqueeze(1)
            hidden_ = self.context(readout).unsqueeze(1)
            hidden_ = hidden_ + self.chunk(torch.cat([chunks, chunks * wish], dim=-1))
            logits: Tensor = self.score(hidden_).squeeze(-1)
            logits = logits + self.scale[0] * (chunks * wish).sum(-1)
            return logits + self.scale[1] * (chunks * query).sum(-1)

    return Weigher()
