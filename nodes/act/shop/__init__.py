"""Actors that play WebShop and no other world, and how they read a page and the steps so far."""

from collections import Counter
from itertools import pairwise
from typing import Literal

from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.view import BACK, BUY, DETAILS, FEATURES, NEXT, PREV
from stategate.nodes.act.page_features import PageReading, amount_of
from stategate.nodes.experience.webshop import WebShopExperience
from stategate.nodes.protocols import BuiltContext
from stategate.stores.text import one_line

PageKind = Literal["search", "results", "item", "detail", "unknown"]
_adapter = WebShopExperience()


class ShopPage(PageReading):
    """The visible part of a shop page, and the actions so far that the pieces of a context show.

    ``price`` is in dollars, the lower end of a range, None if cut. ``visits`` counts how often products
    were opened. ``clicks`` are those on the open product, also where a builder dropped the step that
    opened it. ``is_ended`` where the page after these results was left at once; ``given_up`` counts the
    results that were left for a new search.
    """

    def __init__(self, context: BuiltContext) -> None:
        super().__init__(context, _adapter)
        self.actions = context.actions
        self.price = amount_of(*self.subject)
        self.text = " ".join(one_line(piece.says("text")) for piece in self.details)
        commands = [p for p in context.pieces if p.role == "commands"]
        self.number = int(amount_of(*commands) or 1)
        self.visits = Counter(action for action, _ in self.opened)
        self.clicks = self.since if self.opened else self.done
        searches = [i for i, action in enumerate(self.done) if action.startswith("search[")]
        self.searches = len(searches)
        self.is_ended = (NEXT, PREV) in pairwise(self.done[searches[-1] if searches else 0 :])
        steps = pairwise(["", *self.done])
        self.given_up = sum(now == BACK and before not in DETAILS for before, now in steps)
        self.kind = self._kind()

    def _kind(self) -> PageKind:
        """Name the page by its actions, and by whether parts of each kind of page are shown."""
        if SEARCH in self.actions:
            return "search"
        if self.title or self.choices or BUY in self.actions or FEATURES in self.actions:
            return "item"
        if self.entries or NEXT in self.actions:
            return "results"
        return "detail" if self.details else "unknown"
