"""Any playable world as a gymnasium environment: text in, text out, the legal actions in ``info``.

Importing this registers ``stategate/WebShop-v0`` and ``stategate/ALFWorld-v0``, whose further settings
are those of the world's ``load``: ``gymnasium.make("stategate/WebShop-v0", folder="sample")``.
"""

import string
from functools import lru_cache
from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

from stategate.envs.alfworld import AlfWorld
from stategate.envs.protocols import Observation, World
from stategate.envs.webshop import WebShop

_LONGEST = 1 << 20  # characters; no page has as many
_CHARACTERS = frozenset(string.printable)


class AnyText(spaces.Text):
    """Texts of any characters; samples are printable ASCII."""

    def contains(self, x: Any) -> bool:
        """Say whether ``x`` is a text of a length that is allowed."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length


class WorldGym(gymnasium.Env[str, str]):
    """One episode at a time over a world.

    ``reset(options={"goal": 3})`` starts a task, a seed draws one.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - gymnasium's own convention

    def __init__(
        self, world: World, max_steps: int | None = None, render_mode: str | None = None
    ) -> None:
        self.world, self.max_steps, self.render_mode = world, max_steps, render_mode
        self.observation_space = AnyText(_LONGEST, min_length=0, charset=_CHARACTERS)
        self.action_space = AnyText(512, min_length=1, charset=_CHARACTERS)
        self._task: dict[str, Any] = {}
        self._session: Any = None
        self._text = ""
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start the task that is named, or one drawn from the seed."""
        super().reset(seed=seed)
        tasks = self.world.tasks()
        self._task = dict(options or tasks[int(self.np_random.integers(len(tasks)))])
        self._session, seen = self.world.reset(self._task)
        self._text, self._steps = seen.text, 0
        return seen.text, self._info(seen)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take ``action``; one that the page does not offer changes nothing."""
        self._session, seen = self.world.step(self._session, action)
        self._text = seen.text
        self._steps += 1
        cut = self.max_steps is not None and self._steps >= self.max_steps and not seen.done
        return seen.text, float(seen.reward), seen.done, cut, self._info(seen)

    def render(self) -> str | None:
        """Return the page as text (``render_mode="ansi"``)."""
        return self._text if self.render_mode == "ansi" else None

    def _info(self, seen: Observation) -> dict[str, Any]:
        instruction = self.world.instruction(self._session)
        info = {**self._task, "actions": list(seen.actions), "instruction": instruction}
        return {**info, "reward": seen.info["reward"]} if "reward" in seen.info else info


_shop, _rooms = lru_cache(maxsize=4)(WebShop.load), lru_cache(maxsize=4)(AlfWorld.load)


def _make_shop(render_mode: str | None = None, **settings: Any) -> WorldGym:
    return WorldGym(_shop(**settings), None, render_mode)


def _make_rooms(render_mode: str | None = None, **settings: Any) -> WorldGym:
    return WorldGym(_rooms(**settings), 50, render_mode)


gymnasium.register("stategate/WebShop-v0", entry_point=_make_shop)
gymnasium.register("stategate/ALFWorld-v0", entry_point=_make_rooms)
