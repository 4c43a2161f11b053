"""Updaters ``gru`` (events to a state vector, by a trained recurrent model) and ``none``.

torch is imported only when ``gru`` is built.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from pydantic import Field

from stategate.envs.protocols import INPUT_KINDS, StateInput, View
from stategate.nodes.protocols import Embedder, Updater, UpdaterParams, Vector
from stategate.nodes.resources import Resources
from stategate.stores.assets.weights import fitting, load_trained, require_match, small_inference
from stategate.stores.errors import UserError
from stategate.stores.traces import Event

if TYPE_CHECKING:
    from stategate.nodes.update_state.state_models import StateModel


class Gru(UpdaterParams):
    """A trained state of the episode: one vector of fixed size."""

    kind: Literal["gru"] = "gru"
    checkpoint: str = Field(default="", description="name or path; '' is the one that ships")

    def checkpoints(self) -> tuple[str, ...]:
        """Name the state model."""
        return (self.checkpoint or "state-gru",)

    def build(self, resources: Resources) -> "StateUpdater":
        """Load the model. Raises ``UserError`` for a missing or mismatched checkpoint."""
        (name,) = self.checkpoints()
        model, meta = load_model(name)
        embedder, view = resources.embedder, resources.profile.view
        fix = f"set the embedder that it was trained with ({meta.get('embedder')})"
        require_match(name, meta, "embedder", embedder.name, fix)
        with fitting(name):
            updater = StateUpdater(model, meta, embedder, view)
        if not set(view.actions.classes) <= set(updater.classes):
            logging.getLogger("stategate").warning(
                "checkpoint '%s' learned the actions of another world: here its state is a summary,"
                " and what it expects next means nothing",
                name,
            )
        return updater


class NoUpdater(UpdaterParams):
    """No state of the episode."""

    kind: Literal["none"] = "none"

    def build(self, resources: Resources) -> Updater:
        """Return the updater, which is its parameters."""
        return self

    def initial(self) -> None:
        """Return no state."""

    def update(self, state: Vector | None, events: Sequence[Event]) -> None:
        """Return no state, whatever happened."""


class StateUpdater:
    """A state model as an :class:`Updater`; its state is one float32 vector (d_total,)."""

    def __init__(
        self, model: "StateModel", meta: Mapping[str, Any], embedder: Embedder, view: View
    ) -> None:
        self.model, self._embedder, self._view = model, embedder, view
        #: The SHA-256 of the weights; models that read the state are trained for one of them.
        self.fingerprint = str(meta["sha256"])
        #: The action classes that the model predicts.
        self.classes: tuple[str, ...] = tuple(meta.get("classes") or ())

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
        rows = [row for event in events for row in self._view.inputs(event)]
        if not rows:
            return state
        texts = torch.from_numpy(self._embedder.embed([row.text for row in rows]))
        types = torch.tensor([type_of(row) for row in rows])
        after: Vector = self.model.advance(torch.from_numpy(state), texts, types).numpy()
        return after

    def predict(self, state: Vector) -> dict[str, float]:
        """Return the probability of each next-action class."""
        import torch

        with small_inference():
            readout = torch.from_numpy(state[-self.model.d_state :].astype(np.float32))
            chances = self.model.classify(readout).softmax(-1).tolist()
        return dict(zip(self.classes, chances, strict=True))


def type_of(row: StateInput) -> int:
    """Return the row of the model's type embedding for an input's kind and match level."""
    from stategate.nodes.update_state.state_models import LEVELS

    level = min(int(row.match * (LEVELS - 1)), LEVELS - 1)
    return INPUT_KINDS.index(row.kind) * LEVELS + level


def load_model(name: str) -> "tuple[StateModel, dict[str, Any]]":
    """Return the trained model of checkpoint ``name`` and its meta."""
    from stategate.nodes.update_state.state_models import StateModel

    model, meta = load_trained(name, "state", StateModel)
    return cast("StateModel", model), meta
