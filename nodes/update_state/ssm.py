"""``ssm``: a small selective state-space block in place of the GRU (Gu & Dao 2023, equations 1-4).

The state decays and is written to at rates that depend on the input; it has the same size after any
number of events. Kept beside the GRU to show that the slot is real, and compared in the same table.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from nodes.update_state.state_model import (
    CLASSES,
    D_EVENT,
    D_STATE,
    D_TEXT,
    D_TYPE,
    StateModel,
)


class SsmModel(StateModel):
    """State: (d_inner x n) cells, then the readout."""

    kind = "ssm"

    def __init__(
        self,
        d_text: int = D_TEXT,
        d_type: int = D_TYPE,
        d_event: int = D_EVENT,
        d_state: int = D_STATE,
        d_inner: int = 256,
        n: int = 4,
        classes: int = CLASSES,
    ) -> None:
        super().__init__(d_text, d_type, d_event, d_state, classes)
        self.d_inner, self.n = d_inner, n
        self.d_total = d_inner * n + d_state
        self.enter = nn.Linear(d_event, 2 * d_inner)
        self.select = nn.Linear(d_inner, d_inner + 2 * n)  # step size, input and output weights
        decay = torch.arange(1, n + 1, dtype=torch.float32).log().repeat(d_inner, 1)
        self.log_decay = nn.Parameter(decay)
        self.skip = nn.Parameter(torch.ones(d_inner))
        self.leave = nn.Sequential(nn.LayerNorm(d_inner), nn.Linear(d_inner, d_state))
        with torch.no_grad():  # step sizes start between about 0.01 and 0.3
            self.select.bias[:d_inner].uniform_(-4.6, -1.1)

    def scan(self, events: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`StateModel.scan`."""
        inner, gates = self.enter(events).chunk(2, dim=-1)
        inner = silu(inner)
        steps, writes, reads = self.select(inner).split([self.d_inner, self.n, self.n], dim=-1)
        steps = softplus(steps).unsqueeze(-1)  # (B, T, d_inner, 1)
        keep = torch.exp(-steps * self.log_decay.exp())
        add = steps * writes.unsqueeze(-2) * inner.unsqueeze(-1)
        cells = state[:, : self.d_inner * self.n].view(-1, self.d_inner, self.n)
        outputs = []
        for t in range(events.shape[1]):
            cells = keep[:, t] * cells + add[:, t]
            outputs.append((cells * reads[:, t].unsqueeze(-2)).sum(-1))
        mixed = (torch.stack(outputs, dim=1) + self.skip * inner) * silu(gates)
        readouts: Tensor = self.leave(mixed)
        return readouts, torch.cat([cells.flatten(1), readouts[:, -1]], dim=-1)

    @property
    def architecture(self) -> dict[str, object]:
        """What a checkpoint's JSON must say to build this model again."""
        return {**super().architecture, "d_inner": self.d_inner, "n": self.n}
