"""``gru``: the learned recurrent state, two GRU layers with layer norm between and behind."""

import torch
from torch import Tensor, nn

from nodes.update_state.state_model import (
    CLASSES,
    D_EVENT,
    D_STATE,
    D_TEXT,
    D_TYPE,
    StateModel,
)


class GruModel(StateModel):
    """State: the hidden vectors of both layers, 2 x ``d_state`` numbers; the upper is the readout."""

    kind = "gru"

    def __init__(
        self,
        d_text: int = D_TEXT,
        d_type: int = D_TYPE,
        d_event: int = D_EVENT,
        d_state: int = D_STATE,
        classes: int = CLASSES,
    ) -> None:
        super().__init__(d_text, d_type, d_event, d_state, classes)
        self.d_total = 2 * d_state
        self.lower = nn.GRU(d_event, d_state, batch_first=True)
        self.between = nn.LayerNorm(d_state)
        self.upper = nn.GRU(d_state, d_state, batch_first=True)

    def scan(self, events: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`StateModel.scan`."""
        low, high = state.unsqueeze(0).chunk(2, dim=-1)
        hidden, low = self.lower(events, low.contiguous())
        readouts, high = self.upper(self.between(hidden), high.contiguous())
        return readouts, torch.cat([low, high], dim=-1).squeeze(0)
