"""What the gymnasium environments of text worlds share: text in, text out, the commands in ``info``."""

from typing import Any, SupportsFloat

import gymnasium
from gymnasium import spaces

from stategate.envs.protocols import Observation, World


class TextGym(gymnasium.Env[str, str]):
    """One episode at a time over a shared ``world``; a subclass says what tasks and info are."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - gymnasium's own convention

    def __init__(
        self,
        world: World,
        charset: frozenset[str],
        longest: int,
        max_steps: int | None,
        render_mode: str | None,
    ) -> None:
        self._world = world
        self.render_mode = render_mode
        self.max_steps = max_steps
        self.observation_space = spaces.Text(max_length=longest, min_length=0, charset=charset)
        self.action_space = spaces.Text(max_length=512, min_length=1, charset=charset)
        self._session: Any = None
        self._text = ""
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start the task that is named, or one drawn from the seed."""
        super().reset(seed=seed)
        self._session, seen = self._world.reset(dict(options or {}) or self._drawn())
        self._text, self._steps = seen.text, 0
        return seen.text, self._info(seen)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take ``action``; one that the page does not offer changes nothing."""
        self._session, seen = self._world.step(self._session, action)
        self._text = seen.text
        self._steps += 1
        cut = self.max_steps is not None and self._steps >= self.max_steps and not seen.done
        return seen.text, float(seen.reward), seen.done, cut, self._info(seen)

    def render(self) -> str | None:
        """Return the page as text (``render_mode="ansi"``)."""
        return self._text if self.render_mode == "ansi" else None

    def _drawn(self) -> dict[str, Any]:
        """Return a task drawn by ``self.np_random``."""
        raise NotImplementedError

    def _info(self, seen: Observation) -> dict[str, Any]:
        instruction = self._world.instruction(self._session)
        return {"actions": list(seen.actions), "instruction": instruction}
