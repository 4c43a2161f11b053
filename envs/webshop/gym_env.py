"""WebShop as a gymnasium environment: text in, text out, the action list in ``info``."""

import string
from functools import lru_cache
from typing import Any, Literal, SupportsFloat

import gymnasium
from gymnasium import spaces

from envs.webshop.catalogue import Catalogue, Product
from envs.webshop.pages import PER_PAGE, SEARCH
from envs.webshop.world import WebShop

_MARKUP = 400  # characters of a page beyond its facts: buttons, separators, the receipt


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
        longest = _longest_page(self.shop)
        self.observation_space = spaces.Text(max_length=longest, min_length=0, charset=charset)
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


def _facts(product: Product) -> list[str]:
    options = [name + "".join(values) for name, values in product.options.items()]
    return [product.name, product.description, *product.bullets, *options]


def _characters(catalogue: Catalogue) -> set[str]:
    found: set[str] = set()
    for product in catalogue.products.values():
        found.update(*_facts(product), product.instruction or "", product.price_tag)
        found.update(*product.instruction_attributes)
    return found


def _longest_page(shop: WebShop) -> int:
    """Return a bound on the length of any page: its facts, each with its markup, and the wish."""
    wish = max((len(goal["instruction_text"]) for goal in shop.goals), default=0)
    products = shop.products.values()
    item = max(
        sum(len(fact) + 40 for fact in _facts(p)) + 40 * sum(map(len, p.options.values()))
        for p in products
    )
    results = PER_PAGE * (max(len(p.name) for p in products) + 80)
    return max(wish, 512) + max(item, results) + _MARKUP
