"""Allocators: how much of the room for detail each chunk gets, as weights.

A weight says nothing about the budget, so the same weights serve every budget (which is what makes
``compress`` monotone): of the tokens that are left, a chunk gets its share of the weights until all of
it is shown.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.query import readout_of, trained_head
from stategate.nodes.models.small import small_inference
from stategate.nodes.protocols import ContextRequest
from stategate.nodes.retrieval.page import describe

if TYPE_CHECKING:
    from torch import nn

    from stategate.nodes.resources import Resources

#: From the request and its chunks to a positive weight each.
Allocator = Callable[[ContextRequest, Sequence[Chunk]], dict[str, float]]
_LOWEST, _HIGHEST = 0.05, 20.0


def uniform(request: ContextRequest, chunks: Sequence[Chunk]) -> dict[str, float]:
    """Give every chunk the same."""
    return {chunk.id: 1.0 for chunk in chunks}


def learned(resources: "Resources", checkpoint: str, kind: str) -> Allocator:
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
