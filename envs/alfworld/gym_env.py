"""ALFWorld as a gymnasium environment: text in, text out, the commands in ``info``."""

import string
from functools import lru_cache
from typing import Any

from stategate.envs.alfworld.world import AlfWorld
from stategate.envs.gym_env import TextGym
from stategate.envs.protocols import Observation

_LONGEST = 1 << 16  # characters; no page has as many


class AlfWorldGym(TextGym):
    """One episode at a time over a shared :class:`AlfWorld`.

    ``gymnasium.make("stategate/ALFWorld-v0", folder="sample", split="train")``. Observations and
    actions are text; the possible commands are in ``info["actions"]``. ``reset(options={"game": 3})``
    picks a game by number or name, a seed draws one.
    """

    def __init__(
        self,
        folder: str = "sample",
        split: str | None = None,
        max_steps: int | None = 50,
        render_mode: str | None = None,
    ) -> None:
        self.world = _shared(folder, split)
        charset = frozenset(string.printable)
        super().__init__(self.world, charset, _LONGEST, max_steps, render_mode)

    def _drawn(self) -> dict[str, Any]:
        tasks = self.world.tasks()
        return dict(tasks[int(self.np_random.integers(len(tasks)))])

    def _info(self, seen: Observation) -> dict[str, Any]:
        return {**super()._info(seen), "game": self._session["game"], "won": seen.done}


_shared = lru_cache(maxsize=4)(AlfWorld.load)
