"""Any playable world as a gymnasium environment: text in, text out, the legal actions in ``info``."""

import string
from functools import lru_cache
from importlib import import_module
from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

from stategate.envs.protocols import Observation, PlayableWorld

_LONGEST = 1 << 20  # characters; no page has as many


class AnyText(spaces.Text):
    """Texts of any characters; samples are printable ASCII."""

    def contains(self, x: Any) -> bool:
        """Say whether ``x`` is a text of a length that is allowed."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length


class WorldGym(gymnasium.Env[str, str]):
    """One episode at a time over a world: ``gymnasium.make("stategate/WebShop-v0", folder="sample")``.

    ``world`` is a world, or "module:Class" whose ``load`` takes the further settings (then it is
    loaded once a process). ``reset(options={"goal": 3})`` starts a task, a seed draws one.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - gymnasium's own convention

    def __init__(
        self,
        world: PlayableWorld | str,
        max_steps: int | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        self.world = _loaded(world, tuple(settings.items())) if isinstance(world, str) else world
        self.render_mode, self.max_steps = render_mode, max_steps
        charset = frozenset(string.printable)
        self.observation_space = AnyText(max_length=_LONGEST, min_length=0, charset=charset)
        self.action_space = AnyText(max_length=512, min_length=1, charset=charset)
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


@lru_cache(maxsize=4)
def _loaded(world: str, settings: tuple[tuple[str, Any], ...]) -> PlayableWorld:
    module, _, name = world.partition(":")
    loaded: PlayableWorld = vars(import_module(module))[name].load(**dict(settings))
    return loaded
