"""WebShop as a gymnasium environment: text in, text out, the action list in ``info``."""

import itertools
import string
from functools import lru_cache
from typing import Any, Literal, SupportsFloat

import gymnasium
from gymnasium import spaces

from envs.webshop.catalogue import Catalogue
from envs.webshop.pages import SEARCH
from envs.webshop.world import WebShop

_LONGEST = 1 << 20  # characters; no page has as many


class WebShopGym(gymnasium.Env[str, str]):
    """One episode at a time over a shared :class:`WebShop`.

    ``gymnasium.make("stategate/WebShop-v0", folder="sample", observation="text")``. Observations
    and actions (``search[words]``, ``click[target]``) are text; the legal ones are in
    ``info["actions"]``. ``reset(options={"goal": 3})`` picks a goal, a seed draws one.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - gymnasium's own convention

    def __init__(
        self,
        folder: str = "sample",
        observation: Literal["text", "rich"] = "text",
        seed: int = 0,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.shop = _shared(folder, observation, seed)
        self.render_mode = render_mode
        self.max_steps = max_steps
        charset = frozenset(_characters(self.shop.catalogue)) | frozenset(string.printable)
        self.observation_space = spaces.Text(max_length=_LONGEST, min_length=0, charset=charset)
        self.action_space = spaces.Text(max_length=512, min_length=1, charset=charset)
        self._session: Any = None
        self._text = ""
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start ``options["goal"]`` (or ``["instruction"]``), or a goal drawn from the seed."""
        super().reset(seed=seed)
        task = dict(options or {}) or {"goal": int(self.np_random.integers(len(self.shop.goals)))}
        self._session, seen = self.shop.reset(task)
        self._text, self._steps = seen.text, 0
        return seen.text, self._info(seen)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take ``action``; one that the page does not offer changes nothing."""
        self._session, seen = self.shop.step(self._session, action)
        self._text = seen.text
        self._steps += 1
        cut = self.max_steps is not None and self._steps >= self.max_steps and not seen.done
        return seen.text, float(seen.reward), seen.done, cut, self._info(seen)

    def render(self) -> str | None:
        """Return the page as text (``render_mode="ansi"``)."""
        return self._text if self.render_mode == "ansi" else None

    def _info(self, seen: Any) -> dict[str, Any]:
        info = {
            "actions": list(seen.actions),
            "has_search_bar": SEARCH in seen.actions,
            "instruction": self.shop.instruction(self._session),
            "goal": self._session["goal"],
        }
        return {**info, "reward": seen.info["reward"]} if "reward" in seen.info else info


@lru_cache(maxsize=4)
def _shared(folder: str, observation: Literal["text", "rich"], seed: int) -> WebShop:
    return WebShop.load(folder, observation, seed)


def _characters(catalogue: Catalogue) -> set[str]:
    found: set[str] = set()
    for product in catalogue.products.values():
        found.update(product.name, product.description, *product.bullets, product.price_tag)
        found.update(*product.options, *itertools.chain(*product.options.values()))
        found.update(product.instruction or "", *product.instruction_attributes)
    return found
