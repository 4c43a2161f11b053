"""Read a built context back: what is wanted, the page, the actions so far, from its text alone.

The inverse of ``envs.webshop.view``'s fragments. Any line may be missing or cut, since dropping lines
is what context builders do: what cannot be read is empty, and nothing here raises.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from stategate.envs.protocols import NOTE
from stategate.envs.webshop.actions import BACK, BUY, DETAILS, FEATURES, NEXT, OPENED, PREV
from stategate.envs.webshop.pages import PRICE, SEARCH, dollars
from stategate.envs.webshop.wanted import Wanted

PageKind = Literal["search", "results", "item", "detail", "unknown"]

_PRODUCT = re.compile(r"([0-9a-z]{10})( \(seen\))?(?: \| (.*))?")
_PAGE = re.compile(r"Page (\d+) \(Total results: \d+\)")
_ACTED = re.compile(r"(\d+)\. ((?:search|click)\[.*)")


@dataclass(frozen=True)
class Product:
    """A line of a results page; ``price`` is in dollars, the lower end of a range, None if cut."""

    asin: str
    title: str
    price: float | None
    is_seen: bool

    @property
    def action(self) -> str:
        """The click that opens it."""
        return f"click[{self.asin}]"


@dataclass(frozen=True)
class Reading:
    """Everything that a context shows. ``options`` are ``(group, ((value, action), ...))``.

    ``history`` holds the visible actions so far, oldest first: possibly not the first ones; ``notes``
    beside them what each one's page met of what is asked ("" where nothing is noted).
    """

    page: PageKind
    instruction: str
    wanted: Wanted
    actions: tuple[str, ...]
    number: int = 1
    products: tuple[Product, ...] = ()
    options: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    title: str = ""
    price: float | None = None
    detail: str = ""
    chosen: dict[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class Trail:
    """What the visible actions so far say: ``item`` is the open product, ``since`` the clicks on it.

    ``rejected`` are products left for the search right after their features were read, ``left`` those
    that were left for the list. ``met`` is what is noted of each product.
    """

    opened: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    item: str | None = None
    since: list[str] = field(default_factory=list)
    searches: int = 0
    met: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, history: Sequence[str], notes: Sequence[str] = ()) -> "Trail":
        """Walk through ``history``, oldest first."""
        trail = cls()
        for action, note in zip_longest(history, notes, fillvalue=""):
            found = OPENED.fullmatch(action)
            returns = action == PREV and trail.since and trail.since[-1] in DETAILS
            if found:
                trail.opened.append(found[1])
                trail.item, trail.since = found[1], []
            elif action in (PREV, BACK, NEXT) and not returns:
                if trail.item and action == BACK and trail.since[-1:] == [FEATURES]:
                    trail.rejected.append(trail.item)
                if trail.item and action == PREV:
                    trail.left.append(trail.item)
                trail.item, trail.since = None, []
            elif action.startswith("search["):
                trail.item, trail.since = None, []
                trail.searches += 1
            else:
                trail.since.append(action)
                if action == FEATURES and trail.item is not None:
                    trail.read.append(trail.item)
            if note and trail.item is not None:
                trail.met[trail.item] = f"{trail.met.get(trail.item, '')} {note};"
        return trail


def read(text: str, actions: Sequence[str], part: Callable[..., str] | None = None) -> Reading:
    """Read a prompt line by line, beside the readable ``actions``; unknown lines are passed over.

    ``part`` gives the text of a context's part (see ``nodes.protocols.BuiltContext.part``): what was
    asked, done and chosen is then read from the frame alone, never from what a page says.
    """
    part = part or (lambda *kinds: text)
    legal = {" ".join(action.split()): action for action in actions}
    title, number = "", 1
    price: float | None = None
    products: list[Product] = []
    options: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    detail: list[str] = []
    chosen: dict[str, str] = {}
    numbered = False
    after = part("history").partition("Actions so far")[2]
    history: list[str] = []
    notes: list[str] = []
    for line in after.split("\n"):
        if acted := _ACTED.match(line):
            history.append(acted[2])
            notes.append("")
        elif line.startswith(NOTE) and notes:
            notes[-1] = line.removeprefix(NOTE)
    wish = re.search(r"^Instruction: (.*)$", part("instruction"), re.MULTILINE)
    instruction = wish[1] if wish else ""
    for line in part("status").split("\n"):
        if line.startswith("Chosen: "):
            group, _, value = line.removeprefix("Chosen: ").partition(" = ")
            chosen[group] = value
    for line in part("page").split("\n"):
        head, _, rest = line.partition(": ")
        if head == "Text":
            detail.append(rest)
        elif head == "Product":
            title = rest
        elif head == "Price":
            price = dollars(rest)
        elif head.startswith("Option ") and not any(g == head[7:] for g, _ in options):
            options.append((head[7:], _values(rest, legal)))
        elif found := _PAGE.match(line):
            number, numbered = int(found[1]), True
        elif (product := _PRODUCT.fullmatch(line)) and f"click[{product[1]}]" in legal:
            products.append(_product(product))
    return Reading(
        page=_page_kind(actions, numbered or products, title or options, detail),
        instruction=instruction,
        wanted=Wanted.of(
            instruction,
            [(name, tuple(value for value, _ in own)) for name, own in options if own],
            title,
        ),
        actions=tuple(actions),
        number=number,
        products=tuple(products),
        options=tuple(options),
        title=title,
        price=price,
        detail=" ".join(detail),
        chosen=chosen,
        history=tuple(history),
        notes=tuple(notes),
    )


def title_scores(page: Reading) -> dict[str, float]:
    """Return the weighed share (0 to 1) of the instruction's words in each title, by ASIN."""
    scores = page.wanted.scores([product.title for product in page.products])
    return {p.asin: score for p, score in zip(page.products, scores, strict=True)}


def _product(line: re.Match[str]) -> Product:
    rest = line[3] or ""
    price = dollars(rest)
    title = PRICE.sub("", rest).rstrip(" |") if price is not None else rest
    return Product(line[1], title, price, bool(line[2]))


def _values(line: str, legal: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Split "black | blue | 2 | 4 pack": a value may itself hold the bar, its action says so."""
    parts = line.split(" | ")
    values: list[tuple[str, str]] = []
    while parts:
        for size in range(len(parts), 0, -1):
            value = " | ".join(parts[:size]).strip()
            if f"click[{value}]" in legal:
                values.append((value, legal[f"click[{value}]"]))
                break
        else:
            size = 1
        parts = parts[size:]
    return tuple(values)


def _page_kind(actions: Sequence[str], results: object, item: object, detail: object) -> PageKind:
    """Name the page by its actions, and by whether parts of each kind of page were read."""
    if SEARCH in actions:
        return "search"
    if item or BUY in actions or FEATURES in actions:
        return "item"
    if results or NEXT in actions:
        return "results"
    return "detail" if detail else "unknown"
