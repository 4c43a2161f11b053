"""The shop page and the action history that a built context shows, read from its pieces.

Builders drop and cut lines: a part that is not shown is empty here, and nothing raises.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from stategate.envs.protocols import target_of
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reading import ShopInstruction
from stategate.envs.webshop.view import BACK, BUY, DETAILS, FEATURES, NEXT, OPENED, PREV
from stategate.nodes.act.page_features import amount_of
from stategate.nodes.protocols import BuiltContext, Piece, Step
from stategate.stores.text import one_line

PageKind = Literal["search", "results", "item", "detail", "unknown"]


@dataclass(frozen=True)
class Product:
    """An entry of a results page; ``price`` is in dollars, the lower end of a range, None if cut."""

    asin: str
    title: str
    price: float | None
    is_seen: bool

    @property
    def action(self) -> str:
        """The click that opens it."""
        return f"click[{self.asin}]"


@dataclass(frozen=True)
class ShopPage:
    """The visible part of a shop page. ``options`` are ``(group, ((value, action), ...))``."""

    kind: PageKind
    instruction: str
    goal: ShopInstruction
    actions: tuple[str, ...]
    number: int = 1
    products: tuple[Product, ...] = ()
    options: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    title: str = ""
    price: float | None = None
    detail: str = ""
    chosen: dict[str, str] = field(default_factory=dict)
    trail: "Trail" = field(default_factory=lambda: Trail())

    @property
    def title_scores(self) -> dict[str, float]:
        """The weighted share (0 to 1) of the instruction's words in each title, by ASIN."""
        scores = self.goal.scores([product.title for product in self.products])
        return {p.asin: score for p, score in zip(self.products, scores, strict=True)}


@dataclass
class Trail:
    """The visible actions so far: ``item`` is the open product, ``since`` the clicks on it.

    ``history`` holds the actions, oldest first; builders may have dropped the first ones. ``read`` are
    the products whose features were read, ``notes`` the history's notes on each product.
    """

    history: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    item: str | None = None
    since: list[str] = field(default_factory=list)
    searches: int = 0
    notes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Sequence[Step]) -> "Trail":
        """Walk through the visible steps, oldest first."""
        trail = cls([step.action for step in steps])
        for step in steps:
            trail._take(step.action)
            if step.note and trail.item is not None:
                trail.notes[trail.item] = f"{trail.notes.get(trail.item, '')} {step.note};"
        return trail

    def _take(self, action: str) -> None:
        match = OPENED.fullmatch(action)
        returns = action == PREV and self.since and self.since[-1] in DETAILS
        if match:
            self.opened.append(match[1])
            self.item, self.since = match[1], []
        elif action in (PREV, BACK, NEXT) and not returns:
            self.item, self.since = None, []
        elif action.startswith("search["):
            self.item, self.since = None, []
            self.searches += 1
        else:
            self.since.append(action)
            if action == FEATURES and self.item is not None:
                self.read.append(self.item)


def read_page(context: BuiltContext) -> ShopPage:
    """Return the page and the actions so far that the pieces of ``context`` show."""
    visible = [piece for piece in context.pieces if piece.text]
    roles = {
        role: [p for p in visible if p.role == role] for role in ("entry", "choice", "subject")
    }
    products = tuple(_product(piece) for piece in roles["entry"] if piece.actions)
    options: dict[str, tuple[tuple[str, str], ...]] = {}
    for piece in roles["choice"]:
        if any(f.role == "lead" and f.text.strip() for f in piece.fragments):
            options.setdefault(one_line(piece.choice), _values(piece))
    title = " ".join(filter(None, (piece.says("title") for piece in roles["subject"])))
    number = int(amount_of(*(p for p in visible if p.role == "commands")) or 0)
    detail = [one_line(p.says("text")) for p in visible if p.role == "text" and p.kind == "detail"]
    steps = [piece.step for piece in context.visible("history") if piece.step is not None]
    steps = [step for step in steps if step.action.startswith(("search[", "click["))]
    return ShopPage(
        kind=_kind(context.actions, number or products, title or options, detail),
        instruction=context.instruction,
        goal=ShopInstruction.of(
            context.instruction,
            [(name, tuple(value for value, _ in own)) for name, own in options.items() if own],
            title,
        ),
        actions=context.actions,
        number=number or 1,
        products=products,
        options=tuple(options.items()),
        title=title,
        price=amount_of(*roles["subject"]),
        detail=" ".join(detail),
        chosen=context.status,
        trail=Trail.of(steps),
    )


def _product(piece: Piece) -> Product:
    asin = target_of(piece.actions[0])
    return Product(asin, piece.says("title"), amount_of(piece), piece.is_visited)


def _values(piece: Piece) -> tuple[tuple[str, str], ...]:
    return tuple((f.value.strip(), f.action) for f in piece.fragments if f.action is not None)


def _kind(actions: Sequence[str], results: object, item: object, detail: object) -> PageKind:
    """Name the page by its actions, and by whether parts of each kind of page are shown."""
    if SEARCH in actions:
        return "search"
    if item or BUY in actions or FEATURES in actions:
        return "item"
    if results or NEXT in actions:
        return "results"
    return "detail" if detail else "unknown"
