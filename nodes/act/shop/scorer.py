"""The ``policy`` actor's network: candidates are scored in the light of the page and of each other."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def make_scorer(d_row: int, d_page: int, hidden: int = 96) -> "nn.Module":
    """Return an untrained scorer: rows (B, n, d_row), page (B, d_page), absent (B, n) to logits.

    Each candidate is read beside the page's facts; the maximum and the mean over the page's candidates
    then tell each of them what it competes with (a set network: order does not matter). Absent
    candidates get ``-1e9``.
    """
    import torch
    from torch import Tensor, nn

    class Scorer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.row = nn.Linear(d_row, hidden)
            self.page = nn.Linear(d_page, hidden)
            self.mix = nn.Sequential(nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
            self.own = nn.Linear(hidden, hidden)
            self.others = nn.Linear(2 * hidden, hidden, bias=False)
            self.score = nn.Sequential(nn.GELU(), nn.Linear(hidden, 1))

        def forward(self, rows: Tensor, page: Tensor, absent: Tensor) -> Tensor:
            mixed = self.mix(self.row(rows) + self.page(page).unsqueeze(1))
            gone = absent.unsqueeze(-1)
            top = mixed.masked_fill(gone, -1e9).amax(1, keepdim=True)
            count = (~gone).sum(1, keepdim=True).clamp_min(1)
            middle = mixed.masked_fill(gone, 0.0).sum(1, keepdim=True) / count
            around = self.others(torch.cat([top, middle], dim=-1))
            logits: Tensor = self.score(self.own(mixed) + around).squeeze(-1)
            return logits.masked_fill(absent, -1e9)

    return Scorer()
