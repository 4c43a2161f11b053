"""WebShop as a gymnasium environment: text in, text out, the action list in ``info``."""

import itertools
import string
from functools import lru_cache
from typing import Any, Literal

from stategate.envs.gym_env import TextGym
from stategate.envs.protocols import Observation
from stategate.envs.webshop.catalogue import Catalogue
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.world import WebShop

_LONGEST = 1 << 20  # characters; no page has as many


class WebShopGym(TextGym):
    """One episode at a time over a shared :class:`WebShop`.

    ``gymnasium.make("stategate/WebShop-v0", folder="sample", observation="text")``. Observations
    and actions (``search[words]``, ``click[target]``) are text; the legal ones are in
    ``info["actions"]``. ``reset(options={"goal": 3})`` picks a goal, a seed draws one.
    """

    def __init__(
        self,
        folder: str = "sample",
        observation: Literal["text", "rich"] = "text",
        seed: int = 0,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.shop = _shared(folder, observation, seed)
        charset = frozenset(_characters(self.shop.catalogue)) | frozenset(string.printable)
        super().__init__(self.shop, charset, _LONGEST, max_steps, render_mode)

    def _drawn(self) -> dict[str, Any]:
        return {"goal": int(self.np_random.integers(len(self.shop.goals)))}

    def _info(self, seen: Observation) -> dict[str, Any]:
        info = super()._info(seen)
        info |= {"has_search_bar": SEARCH in seen.actions, "goal": self._session["goal"]}
        return {**info, "reward": seen.info["reward"]} if "reward" in seen.info else info


_shared = lru_cache(maxsize=4)(WebShop.load)


def _characters(catalogue: Catalogue) -> set[str]:
    found: set[str] = set()
    for product in catalogue.products.values():
        found.update(product.name, product.description, *product.bullets, product.price_tag)
        found.update(*product.options, *itertools.chain(*product.options.values()))
        found.update(product.instruction or "", *product.instruction_attributes)
    return found
