"""``none``: no updater."""

from collections.abc import Sequence
from typing import Literal

from stategate.nodes.protocols import Updater, UpdaterParams, Vector
from stategate.nodes.resources import Resources
from stategate.stores.traces import Event


class NoUpdater(UpdaterParams):
    """No memory of the episode's course."""

    kind: Literal["none"] = "none"

    def build(self, resources: Resources) -> Updater:
        """Return an updater whose state is always None."""
        return _Nothing()


class _Nothing:
    def initial(self) -> Vector | None:
        return None

    def update(self, state: Vector | None, events: Sequence[Event]) -> Vector | None:
        return None
