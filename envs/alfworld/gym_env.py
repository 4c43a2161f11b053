"""ALFWorld as a gymnasium environment: text in, text out, the commands in ``info``."""

import string
from functools import lru_cache
from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

from envs.alfworld.world import AlfWorld

_LONGEST = 1 << 16  # characters; no page has as many


class AlfWorldGym(gymnasium.Env[str, str]):
    """One episode at a time over a shared :class:`AlfWorld`.

    ``gymnasium.make("stategate/ALFWorld-v0", folder="sample", split="train")``. Observations and
    actions are text; the possible commands are in ``info["actions"]``. ``reset(options={"game": 3})``
    picks a game by number or name, a seed draws one.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - gymnasium's own convention

    def __init__(
        self,
        folder: str = "sample",
        split: str | None = None,
        max_steps: int | None = 50,
        render_mode: str | None = None,
    ) -> None:
        self.world = _shared(folder, split)
        self.render_mode = render_mode
        self.max_steps = max_steps
        charset = frozenset(string.printable)
        self.observation_space = spaces.Text(max_length=_LONGEST, min_length=0, charset=charset)
        self.action_space = spaces.Text(max_length=512, min_length=1, charset=charset)
        self._session: Any = None
        self._text = ""
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start ``options["game"]``, or a game drawn from the seed."""
        super().reset(seed=seed)
        tasks = self.world.tasks()
        task = dict(options or {}) or tasks[int(self.np_random.integers(len(tasks)))]
        self._session, seen = self.world.reset(task)
        self._text, self._steps = seen.text, 0
        return seen.text, self._info(seen)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take ``action``; one that is not possible changes nothing."""
        self._session, seen = self.world.step(self._session, action)
        self._text = seen.text
        self._steps += 1
        cut = self.max_steps is not None and self._steps >= self.max_steps and not seen.done
        return seen.text, float(seen.reward), seen.done, cut, self._info(seen)

    def render(self) -> str | None:
        """Return the page as text (``render_mode="ansi"``)."""
        return self._text if self.render_mode == "ansi" else None

    def _info(self, seen: Any) -> dict[str, Any]:
        return {
            "actions": list(seen.actions),
            "instruction": self.world.instruction(self._session),
            "game": self._session["game"],
            "won": seen.done,
        }


@lru_cache(maxsize=4)
def _shared(folder: str, split: str | None) -> AlfWorld:
    return AlfWorld.load(folder, split)
