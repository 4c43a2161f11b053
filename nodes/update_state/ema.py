"""Updaters that learn nothing: ``ema``, which a learned state must beat, and ``none``."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from stategate.nodes.protocols import Updater, UpdaterParams, Vector
from stategate.nodes.resources import Resources
from stategate.stores.traces import Event


class Ema(UpdaterParams):
    """Keep ``state = decay * state + (1 - decay) * hashed words`` of each event, scaled to one.

    Words are hashed into ``dimension`` signed buckets; no model is asked.
    """

    hint: ClassVar[str] = "a fading mean of what was read; learns nothing"
    kind: Literal["ema"] = "ema"
    dimension: int = Field(default=512, ge=8)
    decay: float = Field(default=0.6, ge=0, lt=1, description="what is kept at each event")

    def build(self, resources: Resources) -> Updater:
        """Return the updater; nothing is loaded."""
        return _Mean(self)


class _Mean:
    def __init__(self, params: Ema) -> None:
        from stategate.nodes.models.embedders import HashingEmbedder

        self._decay, self._embedder = params.decay, HashingEmbedder(params.dimension)

    def initial(self) -> Vector:
        return np.zeros(self._embedder.dimension, dtype=np.float32)

    def update(self, state: Vector | None, events: Sequence[Event]) -> Vector:
        now = self.initial() if state is None else state
        for event in events:
            fresh = self._embedder.embed([f"{event.kind} {event.text}"])[0]
            now = self._decay * now + (1 - self._decay) * fresh
            now = now / max(float(np.linalg.norm(now)), 1e-12)
        return np.asarray(now, dtype=np.float32)


class NoUpdater(UpdaterParams):
    """Keep no recurrent state."""

    hint: ClassVar[str] = "no memory of the episode's course"
    kind: Literal["none"] = "none"

    def build(self, resources: Resources) -> Updater:
        """Return an updater whose state is always None."""
        return _Nothing()


class _Nothing:
    def initial(self) -> Vector | None:
        return None

    def update(self, state: Vector | None, events: Sequence[Event]) -> Vector | None:
        return None
