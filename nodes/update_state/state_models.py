"""The state model: a recurrent network (GRU) over an episode's events, with a state of constant size.

Events become inputs (the view's), inputs become frozen 384-d text embeddings plus a learned type
embedding, projected to ``d_event``; a GRU reads them in order. The last ``d_state`` numbers of the
state vector are its readout: what heads and retrievers see.
"""

import torch
from torch import Tensor, nn

from stategate.envs.protocols import INPUT_KINDS
from stategate.stores.assets.weights import small_inference

#: Levels of an input's match with the instruction, from 0 (nothing of it is asked) to 4 (all).
LEVELS = 5
INPUT_TYPES = len(INPUT_KINDS) * LEVELS


class StateModel(nn.Module):
    """A two-layer GRU over events, with an action head.

    The state vector (d_total,) is the hidden vectors of both layers; the upper one is the readout.
    """

    def __init__(
        self,
        classes: int,
        d_text: int = 384,
        d_type: int = 32,
        d_event: int = 256,
        d_state: int = 512,
    ) -> None:
        super().__init__()
        self.d_state, self.d_total = d_state, 2 * d_state
        types, project = nn.Embedding(INPUT_TYPES, d_type), nn.Linear(d_text + d_type, d_event)
        projection = nn.Sequential(project, nn.GELU(), nn.LayerNorm(d_event))
        self.encoder = nn.ModuleDict({"types": types, "project": projection})
        self.head = nn.Sequential(nn.LayerNorm(d_state), nn.Linear(d_state, classes))
        self.lower = nn.GRU(d_event, d_state, batch_first=True)
        self.between = nn.LayerNorm(d_state)
        self.upper = nn.GRU(d_state, d_state, batch_first=True)

    def encode(self, texts: Tensor, types: Tensor) -> Tensor:
        """Return events (…, d_event) of text embeddings (…, d_text) and input types (…)."""
        encoded: Tensor = self.encoder["project"](
            torch.cat([texts, self.encoder["types"](types)], dim=-1)
        )
        return encoded

    def scan(self, events: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Read encoded ``events`` (B, T, d_event) from ``state`` (B, d_total).

        Returns the readouts after each event (B, T, d_state) and the last state (B, d_total).
        """
        low, high = state.unsqueeze(0).chunk(2, dim=-1)
        hidden, low = self.lower(events, low.contiguous())
        readouts, high = self.upper(self.between(hidden), high.contiguous())
        return readouts, torch.cat([low, high], dim=-1).squeeze(0)

    def forward(self, texts: Tensor, types: Tensor) -> Tensor:
        """Return the readouts (B, T, d_state) from the empty state; rows may be padded behind."""
        start = texts.new_zeros(texts.shape[0], self.d_total)
        return self.scan(self.encode(texts, types), start)[0]

    def advance(self, state: Tensor, texts: Tensor, types: Tensor) -> Tensor:
        """Return the state (d_total,) after the inputs ``texts`` (T, d_text), ``types`` (T,)."""
        with small_inference():
            events = self.encode(texts, types).unsqueeze(0)
            return self.scan(events, state.unsqueeze(0))[1].squeeze(0)

    def classify(self, readout: Tensor) -> Tensor:
        """Return logits over the action classes (…, classes) from readouts (…, d_state)."""
        logits: Tensor = self.head(readout)
        return logits
