"""Actors that play WebShop and no other world, and how they read a page and the steps so far.

Builders drop and cut lines: a part that is not shown is empty here, and nothing raises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.view import BACK, BUY, DETAILS, FEATURES, NEXT, OPENED, PREV
from stategate.language.instruction.aligned import AlignedInstruction
from stategate.nodes.act.page_features import amount_of
from stategate.nodes.protocols import BuiltContext, Step
from stategate.stores.text import one_line

PageKind = Literal["search", "results", "item", "detail", "unknown"]


@dataclass(frozen=True)
class Product:
    """An entry of a results page: the click that opens it, what is shown, whether it was opened before.

    ``price`` is in dollars, the lower end of a range, None if cut.
    """

    action: str
    title: str
    price: float | None
    is_seen: bool


@dataclass(frozen=True)
class ShopPage:
    """The visible part of a shop page. ``options`` are the ``(value, action)`` pairs of each group."""

    kind: PageKind
    goal: AlignedInstruction
    actions: tuple[str, ...]
    number: int
    products: tuple[Product, ...]
    options: Mapping[str, Sequence[tuple[str, str]]]
    title: str
    price: float | None
    detail: str
    chosen: Mapping[str, str]
    trail: "Trail"


@dataclass
class Trail:
    """The visible actions so far: ``item`` is the open product, ``since`` the clicks on it.

    Products are named by the clicks that open them. ``history`` holds the actions, oldest first;
    builders may have dropped the first ones. ``read`` are the products whose features were read,
    ``notes`` the history's notes on each product. ``is_ended`` where the page after these results was
    left at once; ``given_up`` counts the results that were left for a new search.
    """

    history: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
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
            if action == FEATURES and self.item is not None:
                self.read.append(self.item)
        if step.note and self.item is not None:
            self.notes[self.item] = f"{self.notes.get(self.item, '')} {step.note};"


def read_page(context: BuiltContext) -> ShopPage:
    """Return the page and the actions so far that the pieces of ``context`` show."""
    visible = [piece for piece in context.pieces if piece.text]
    entries, choices, subject, commands = (
        [p for p in visible if p.role == role]
        for role in ("entry", "choice", "subject", "commands")
    )
    products = tuple(
        Product(p.actions[0], p.says("title"), amount_of(p), p.is_visited)
        for p in entries
        if p.actions
    )
    options: dict[str, list[tuple[str, str]]] = {}
    for piece in choices:
        if any(f.role == "lead" and f.text.strip() for f in piece.fragments):
            pairs = [(f.value.strip(), f.action) for f in piece.fragments if f.action is not None]
            options.setdefault(one_line(piece.choice), pairs)
    title = " ".join(filter(None, (piece.says("title") for piece in subject)))
    number = int(amount_of(*commands) or 0)
    detail = [one_line(p.says("text")) for p in visible if p.role == "text" and p.kind == "detail"]
    trail = Trail()
    for step in (piece.step for piece in context.visible("history")):
        if step is not None and step.action.startswith(("search[", "click[")):
            trail.add(step)
    groups = [(name, tuple(value for value, _ in own)) for name, own in options.items() if own]
    return ShopPage(
        kind=_kind(context.actions, number or products, title or options, detail),
        goal=AlignedInstruction.of(context.instruction, groups, title),
        actions=context.actions,
        number=number or 1,
        products=products,
        options=options,
        title=title,
        price=amount_of(*subject),
        detail=" ".join(detail),
        chosen=context.status,
        trail=trail,
    )


def _kind(actions: Sequence[str], results: object, item: object, detail: object) -> PageKind:
    """Name the page by its actions, and by whether parts of each kind of page are shown."""
    if SEARCH in actions:
        return "search"
    if item or BUY in actions or FEATURES in actions:
        return "item"
    if results or NEXT in actions:
        return "results"
    return "detail" if detail else "unknown"
