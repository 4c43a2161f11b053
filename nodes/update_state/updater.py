"""A trained state model at work: events in, a state vector of constant size out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from nodes.models.small import small_inference
from nodes.protocols import Embedder, UpdaterParams, Vector
from nodes.update_state.views import inputs_of
from stores.errors import UserError
from stores.traces import Event

if TYPE_CHECKING:
    from nodes.resources import Resources
    from nodes.update_state.state_model import StateModel


class LearnedUpdater(UpdaterParams):
    """Parameters of updaters that load a checkpoint made by ``trainers.state.next_action``."""

    checkpoint: str = Field(default="", description="name or path; '' is the one that ships")

    @property
    def weights(self) -> str:
        """The checkpoint's name or path."""
        return self.checkpoint or f"state-{self.kind}"

    def checkpoints(self, updater: str) -> tuple[str, ...]:
        """Name the state model."""
        return (self.weights,)

    def build(self, resources: "Resources") -> "StateUpdater":
        """Load the model. Raises ``UserError`` for a missing or mismatched checkpoint."""
        from nodes.update_state.state_model import load_model
        from stores.assets.weights import require_match

        model, meta = load_model(self.weights, self.kind)
        embedder = resources.embedder
        fix = f"set the embedder that it was trained with ({meta.get('embedder')})"
        require_match(self.weights, meta, "embedder", embedder.name, fix)
        return StateUpdater(model, embedder, meta)


class StateUpdater:
    """The state is one float32 vector (d_total,); :meth:`update` is O(1) per event."""

    def __init__(self, model: "StateModel", embedder: Embedder, meta: dict[str, Any]) -> None:
        self.model, self.embedder, self.meta = model, embedder, meta

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the weights, which what was trained on top must have been trained for."""
        return str(self.meta["sha256"])

    def initial(self) -> Vector:
        """Return the empty state."""
        return np.zeros(self.model.d_total, dtype=np.float32)

    def update(self, state: Vector | None, events: Sequence[Event]) -> Vector | None:
        """Return the state after ``events``. Raises ``UserError`` for another model's state."""
        import torch

        state = self.initial() if state is None else np.asarray(state, dtype=np.float32)
        if state.shape != (self.model.d_total,):
            raise UserError(
                f"the stored state has {state.size} numbers, this updater's {self.model.d_total}:"
                " start a new thread after changing the updater"
            )
        rows = inputs_of(events)
        if not rows:
            return state
        texts = torch.from_numpy(self.embedder.embed([text for _, text in rows]))
        types = torch.tensor([type_ for type_, _ in rows])
        after: Vector = self.model.advance(torch.from_numpy(state), texts, types).numpy()
        return after

    def predict(self, state: Vector) -> dict[str, float]:
        """Return the probability of each next-action class."""
        import torch

        from nodes.update_state.action_classes import ACTION_CLASSES

        with small_inference():
            readout = torch.from_numpy(state[-self.model.d_state :].astype(np.float32))
            chances = self.model.classify(readout).softmax(-1).tolist()
        return dict(zip(ACTION_CLASSES, chances, strict=True))
