"""Actors that play WebShop and no other world, and how they read a page and the steps so far.

Builders drop and cut lines: a part that is not shown is empty here, and nothing raises.
"""

from dataclasses import dataclass, field
from typing import Literal

from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.view import BACK, BUY, DETAILS, FEATURES, NEXT, OPENED, PREV
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.nodes.act.page_features import amount_of
from stategate.nodes.protocols import BuiltContext, Step
from stategate.stores.text import one_line

PageKind = Literal["search", "results", "item", "detail", "unknown"]


@dataclass
class Trail:
    """The visible actions so far: ``item`` is the open product, ``since`` the clicks on it.

    Products are named by the clicks that open them. ``history`` holds the actions, oldest first;
    builders may have dropped the first ones. ``notes`` are the history's notes on each product.
    ``is_ended`` where the page after these results was left at once; ``given_up`` counts the results
    that were left for a new search.
    """

    history: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    item: str | None = None
    since: list[str] = field(default_factory=list)
    searches: int = 0
    is_ended: bool = False
    given_up: int = 0
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Go on by one visible step."""
        action, before = step.action, self.history[-1:]
        self.history.append(action)
        opens, is_search = bool(OPENED.fullmatch(action)), action.startswith("search[")
        self.is_ended = (self.is_ended and not is_search) or (action == PREV and before == [NEXT])
        self.given_up += action == BACK and not {*before} & {*DETAILS}
        returns = action == PREV and self.since and self.since[-1] in DETAILS
        if opens or is_search or (action in (PREV, BACK, NEXT) and not returns):
            self.item, self.since = action if opens else None, []
            self.opened += [action] * opens
            self.searches += is_search
        else:
            self.since.append(action)
        if step.note and self.item is not None:
            self.notes[self.item] = f"{self.notes.get(self.item, '')} {step.note};"


class ShopPage:
    """The visible part of a shop page, and the actions so far that the pieces of a context show.

    ``products`` are the entries of a results page that can be opened, by the first action of each.
    ``options`` are the ``(value, action)`` pairs of each group. ``price`` is in dollars, the lower end
    of a range, None if cut.
    """

    def __init__(self, context: BuiltContext) -> None:
        visible = [piece for piece in context.pieces if piece.text]
        entries, choices, subject, texts, commands = (
            [p for p in visible if p.role == role]
            for role in ("entry", "choice", "subject", "text", "commands")
        )
        self.actions, self.chosen = context.actions, context.status
        self.products = [piece for piece in entries if piece.actions]
        self.options: dict[str, list[tuple[str, str]]] = {}
        for piece in choices:
            if any(f.role == "lead" and f.text.strip() for f in piece.fragments):
                pairs = [
                    (f.value.strip(), f.action) for f in piece.fragments if f.action is not None
                ]
                self.options.setdefault(one_line(piece.choice), pairs)
        self.title = " ".join(filter(None, (piece.says("title") for piece in subject)))
        self.price = amount_of(*subject)
        self.number = int(amount_of(*commands) or 1)
        self.detail = " ".join(one_line(piece.says("text")) for piece in texts)
        groups = [(name, tuple(v for v, _ in own)) for name, own in self.options.items() if own]
        self.goal = AlignedInstruction.of(context.instruction, groups, self.title)
        self.kind = self._kind(bool(texts))
        self.trail = Trail()
        for step in (piece.step for piece in context.visible("history")):
            if step is not None:
                self.trail.add(step)

    def _kind(self, has_text: bool) -> PageKind:
        """Name the page by its actions, and by whether parts of each kind of page are shown."""
        if SEARCH in self.actions:
            return "search"
        if self.title or self.options or BUY in self.actions or FEATURES in self.actions:
            return "item"
        if self.products or NEXT in self.actions:
            return "results"
        return "detail" if has_text else "unknown"
