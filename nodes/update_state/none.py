"""``none``: no recurrent state; context builders that need one cannot be used with it."""

from collections.abc import Sequence
from typing import Literal

from nodes.protocols import Updater, UpdaterParams, Vector
from nodes.resources import Resources
from stores.traces import Event


class NoUpdater(UpdaterParams):
    """Keep no recurrent state."""

    kind: Literal["none"] = "none"

    def build(self, resources: Resources) -> Updater:
        """Return an updater whose state is always None."""
        return _Nothing()


class _Nothing:
    def initial(self) -> Vector | None:
        return None

    def update(self, state: Vector | None, events: Sequence[Event]) -> Vector | None:
        return None
