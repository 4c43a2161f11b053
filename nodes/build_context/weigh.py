"""The learned allocator's network: which chunk the next action hangs on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def make_weigher(d_state: int, d_text: int, hidden: int = 192) -> "nn.Module":
    """Return an untrained weigher: (readout, instruction, chunks (B, n, d_text)) to logits (B, n)."""
    import torch
    from torch import Tensor, nn

    class Weigher(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Sequential(
                nn.LayerNorm(d_state), nn.Linear(d_state, hidden), nn.GELU(),
                nn.Linear(hidden, d_text),
            )  # fmt: skip
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
