"""Read a built context back: the wish, the page and the actions so far, from the prompt's text alone.

The inverse of ``nodes.build_context.render``. Any line may be missing or cut, since dropping lines
is what context builders do: what cannot be read is empty, and nothing here raises.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from envs.protocols import SEARCH
from nodes.protocols import BuiltContext

PageKind = Literal["search", "results", "item", "detail", "unknown"]

_LIMIT = re.compile(r",? and price lower than ([\d.]+)")
_OPTION = re.compile(r"(?: with |, and )([^:,]{1,60}): ")
_JOINT = re.compile(", | with | for ")
_PRODUCT = re.compile(r"([0-9a-z]{10})( \(seen\))?(?: \| (.*))?")
_PRICE = re.compile(r"\$([\d,]+(?:\.\d+)?)(?: to \$([\d,]+(?:\.\d+)?))?\s*$")
_PAGE = re.compile(r"Page (\d+) \(Total results: \d+\)")
_ACTED = re.compile(r"(\d+)\. ((?:search|click)\[.*)")
_WORD = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?")
_SMALL = (
    "a an the and or of in on to is it i me my we you am are be for with that this should please "
    "find looking need want can make sure say says hello about which has have"
)
_NOISE = frozenset(_SMALL.split())


@dataclass(frozen=True)
class Wish:
    """What the instruction asks for; ``limit`` is in dollars (None if none is named).

    ``phrases`` are its attributes and, among them, ``kind``: the phrase with the kind of product,
    which a last attribute may lead ("machine wash men's shirts").
    """

    phrases: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    limit: float | None
    kind: str = ""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The phrases that do not name the kind of product."""
        return tuple(phrase for phrase in self.phrases if phrase != self.kind)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of what is asked for, without options, price and small words."""
        return tuple(dict.fromkeys(w for phrase in self.phrases for w in words_of(phrase)))


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

    ``history`` holds the visible actions so far, oldest first: possibly not the first ones.
    """

    page: PageKind
    instruction: str
    wish: Wish
    actions: tuple[str, ...]
    number: int = 1
    products: tuple[Product, ...] = ()
    options: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    title: str = ""
    price: float | None = None
    detail: str = ""
    chosen: dict[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()


def read(context: BuiltContext) -> Reading:
    """Read ``context`` line by line; lines of an unknown form are passed over."""
    legal = {" ".join(action.split()): action for action in context.actions}
    instruction, title, number = "", "", 1
    price: float | None = None
    products: list[Product] = []
    options: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    detail: list[str] = []
    chosen: dict[str, str] = {}
    history: list[str] = []
    acting = numbered = False
    for line in context.text.split("\n"):
        head, _, rest = line.partition(": ")
        if line.startswith("Actions so far"):
            acting = True
        elif acting and (acted := _ACTED.match(line)):
            history.append(acted[2])
        elif head == "Instruction" and not instruction:
            instruction = rest
        elif head == "Text":
            detail.append(rest)
        elif head == "Product":
            title = rest
        elif head == "Price":
            price = dollars(rest)
        elif head.startswith("Option ") and not any(g == head[7:] for g, _ in options):
            options.append((head[7:], _values(rest, legal)))
        elif head == "Chosen":
            group, _, value = rest.partition(" = ")
            chosen[group] = value
        elif found := _PAGE.match(line):
            number, numbered = int(found[1]), True
        elif (product := _PRODUCT.fullmatch(line)) and f"click[{product[1]}]" in legal:
            products.append(_product(product))
    return Reading(
        page=_page_kind(
            context.actions,
            is_results=numbered or bool(products),
            is_item=bool(title or options),
            has_detail=bool(detail),
        ),
        instruction=instruction,
        wish=read_wish(instruction),
        actions=context.actions,
        number=number,
        products=tuple(products),
        options=tuple(options),
        title=title,
        price=price,
        detail=" ".join(detail),
        chosen=chosen,
        history=tuple(history),
    )


@lru_cache(maxsize=256)
def read_wish(instruction: str) -> Wish:
    """Take an instruction apart: "Find me A, B <kind> with C for D with k: v, and price ..."."""
    limit = _LIMIT.search(instruction)
    plain = instruction[: limit.start()] if limit else instruction
    marks = list(_OPTION.finditer(plain))
    options: list[tuple[str, str]] = []
    end = len(plain)
    for mark in reversed(marks):
        # "with long sleeve with color: " starts an option only at its last "with".
        name = mark[1].rsplit(" with ", 1)[-1]
        options.append((name.strip(), plain[mark.end() : end].strip(" ,")))
        end = mark.end() - len(name) - len(": ") - len(" with ")
        if not plain[mark.start() :].startswith(", and "):
            break
        end = mark.start()
    plain = plain[:end].strip().removeprefix("Find me").strip()
    phrases = [part.strip() for part in _JOINT.split(plain)]
    kind = re.split(" with | for ", plain)[0].rpartition(", ")[2].strip()
    price = _number(limit[1]) if limit else None
    return Wish(tuple(p for p in phrases if p), tuple(reversed(options)), price, kind)


def search_words(wish: Wish, form: str) -> str:
    """Return all of the wish as search words, or the part that ``form`` names, without its price.

    Forms are the searches among ``nodes.experience.returns.MOVES``; "" where nothing is left.
    """
    words = [*wish.phrases]
    if form in ("search_kind_options", "search_kind") and wish.kind:
        words = [wish.kind]
    if form in ("search", "search_kind_options"):
        words += [value for _, value in wish.options]
    return " ".join(re.sub(r"[\[\]<>]", " ", " ".join(words)).split())


def dollars(text: str) -> float | None:
    """Return the price at the end of ``text`` (the lower end of a range), None if there is none."""
    found = _PRICE.search(text)
    return _number(found[1]) if found else None


@lru_cache(maxsize=16384)
def words_of(text: str) -> tuple[str, ...]:
    """Return the stems of the words of ``text`` in order, without small words."""
    return tuple(_stem(w) for w in _WORD.findall(text.lower()) if w not in _NOISE and w != "s")


def overlap(wanted: Sequence[str], text: str) -> float:
    """Return the share (0 to 1) of the stems ``wanted`` that ``text`` holds; 1 if none is wanted."""
    if not wanted:
        return 1.0
    there = set(words_of(text))
    return sum(word in there for word in wanted) / len(wanted)


def _stem(word: str) -> str:
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)].removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").rstrip("."))
    except ValueError:
        return None


def _product(line: re.Match[str]) -> Product:
    rest = line[3] or ""
    price = dollars(rest)
    title = _PRICE.sub("", rest).rstrip(" |") if price is not None else rest
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


def _page_kind(
    actions: Sequence[str], is_results: bool, is_item: bool, has_detail: bool
) -> PageKind:
    if SEARCH in actions:
        return "search"
    if is_item or "click[buy now]" in actions or "click[features]" in actions:
        return "item"
    if is_results or "click[next >]" in actions:
        return "results"
    return "detail" if has_detail else "unknown"
