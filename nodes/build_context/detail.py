"""Levels of detail: which words of a prompt line may go, and in which order they come back.

A piece of prompt is taken apart into what must stay (the words of its affordances) and units that can
be shown or not: words of titles, clauses of running text, whole lines of history. A unit has a tier:
what the next action most likely hangs on comes first. Showing more units never changes or removes what
is shown already.

    -2  the instruction: its option clauses where the page offers options, else its other words
    -1  leads ("Option size:"), without which nobody can tell what the values are
    0  the rest of the instruction, what is chosen, prices above the limit
    1  asked words that tell one chunk from another, asked clauses, the latest actions
    2  asked words that most chunks of the page share
    3  everything else
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nodes.act.reading import dollars, read_wish, words_of
from nodes.build_context.render import Fragment
from nodes.protocols import Piece
from stores.tokens import count_tokens

_WORD = re.compile(r"\s*\S+")
_CLAUSE = re.compile(r"(?<=[.;!?,])\s+")
_CLAUSE_WORDS = 12
_PRICE = re.compile(r"\$[\d,.]+(?: to \$[\d,.]+)?")


@dataclass(frozen=True)
class Unit:
    """A stretch of a piece that is shown whole or not at all. ``cost`` is in tokens."""

    place: int
    tier: int
    cost: int


@dataclass(frozen=True)
class _Part:
    """A stretch in page order. ``group`` ties separators to the words that they lead."""

    text: str
    action: str | None = None
    unit: int | None = None
    group: int | None = None


class Ladder:
    """One piece between its bare affordances and all of its text.

    ``units`` come in the order in which they are to be shown within the piece.
    """

    def __init__(self, parts: Sequence[_Part], units: Sequence[Unit]) -> None:
        self._parts = tuple(parts)
        self.units = tuple(units)
        self.is_bound = any(part.action is not None for part in parts)

    def show(self, kept: Collection[int]) -> list[Fragment]:
        """Return the fragments with the units at the places ``kept`` (and all affordances)."""
        alive = {p.group for p in self._parts if p.unit in kept and p.group is not None}
        shown: list[Fragment] = []
        for part in self._parts:
            is_kept = part.unit in kept if part.unit is not None else part.group in alive
            if part.action is not None or is_kept:
                shown.append(Fragment(part.text, part.action))
        if not shown:
            return []
        first = shown[0]
        shown[0] = Fragment(first.text.lstrip(), first.action)
        return shown if shown[-1].text.endswith("\n") else [*shown, Fragment("\n")]


@dataclass(frozen=True)
class Wanted:
    """What decides tiers: asked stems, those that most chunks share, the price limit in dollars."""

    words: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()
    limit: float | None = None

    def tier(self, text: str) -> int:
        """Return the tier of running text."""
        asked = self.words.intersection(words_of(text))
        return 3 if not asked else 1 if asked - self.common else 2

    def price_tier(self, text: str) -> int:
        """Return the tier of a price: a buyer must know that it is too high."""
        price = dollars(text.strip())
        return 0 if price is not None and self.limit is not None and price > self.limit else 3


def wanted_of(instruction: str, titles: Sequence[str] = ()) -> Wanted:
    """Return what the instruction asks for; ``titles`` are those that compete on the page."""
    wish = read_wish(instruction)
    values = (word for _, value in wish.options for word in words_of(value))
    words = frozenset((*wish.words, *values))
    stems = [set(words_of(title)) for title in titles]
    common = {w for w in words if stems and sum(w in s for s in stems) > 0.5 * len(stems)}
    return Wanted(words, frozenset(common), wish.limit)


def chunk_ladder(kind: str, fragments: Sequence[Fragment], wanted: Wanted) -> Ladder:
    """Take the rendering of a chunk apart. Leads of buttons and options are one unit each."""
    parts: list[_Part] = []
    units: list[Unit] = []
    groups = 0
    for fragment in fragments:
        if fragment.action is not None:
            parts.append(_Part(fragment.text, fragment.action))
            continue
        for line in fragment.text.splitlines(keepends=True):
            if not line.strip():
                continue
            groups += 1
            if kind in ("options", "buttons", "navigation"):
                parts.append(_Part(line, unit=len(units)))
                units.append(Unit(len(units), -1, _cost(line)))
            elif kind == "product":
                groups = _segments(line, parts, units, wanted, groups)
            else:
                _line(kind, line, parts, units, wanted, groups)
    if parts and not parts[-1].text.endswith("\n"):
        parts.append(_Part("\n", group=groups))
    order = sorted(units, key=lambda u: (u.tier, u.place))
    return Ladder(parts, order)


def instruction_ladder(text: str, by_options: bool) -> Ladder:
    """Take the instruction apart by words; ``by_options`` puts its option clauses first."""
    wish = read_wish(text.removeprefix("Instruction: ").rstrip("\n"))
    names = [text.find(f" {name}: {value}") for name, value in wish.options]
    start = min((at for at in names if at >= 0), default=len(text))
    start = max(text.rfind(" with", 0, start), 0) if start < len(text) else start
    parts: list[_Part] = []
    units: list[Unit] = []
    at = 0
    for word in _WORD.findall(text.rstrip("\n")):
        is_head = at == 0
        is_option = at >= start
        units.append(Unit(len(units), -2, _cost(word) + is_head))
        parts.append(_Part(word, unit=len(units) - 1))
        at += len(word)
        if is_head or is_option == by_options:
            continue
        units[-1] = Unit(units[-1].place, 0, units[-1].cost)
    parts.append(_Part("\n"))
    return Ladder(parts, sorted(units, key=lambda unit: (unit.tier, unit.place)))


def plain_ladder(piece: Piece, tier: int, whole: bool = False) -> Ladder:
    """Take any other piece apart: by words, or as one unit if ``whole``."""
    words = [piece.text] if whole else _WORD.findall(piece.text.rstrip("\n"))
    parts = [_Part(word, unit=i) for i, word in enumerate(words)]
    if not whole and parts:
        parts.append(_Part("\n", group=None))
    return Ladder(parts, [Unit(i, tier, _cost(word)) for i, word in enumerate(words)])


def _segments(text: str, parts: list[_Part], units: list[Unit], wanted: Wanted, groups: int) -> int:
    """Add " | title | $price": a segment's bar is shown with the first of its words."""
    for i, segment in enumerate(text.rstrip("\n").split(" | ")):
        if not segment.strip() and i == 0:
            continue
        groups += 1
        parts.append(_Part(" |" if i else "", group=groups))
        space = " " if i else ""
        if _PRICE.fullmatch(segment.strip()):
            parts.append(_Part(space + segment, unit=len(units), group=groups))
            units.append(Unit(len(units), wanted.price_tier(segment), _cost(" | " + segment)))
            continue
        lead = 1 if i else 0  # the bar's token is paid by the segment's first word
        for word in _WORD.findall(space + segment):
            parts.append(_Part(word, unit=len(units), group=groups))
            units.append(Unit(len(units), wanted.tier(word), _cost(word) + lead))
    return groups


def _line(
    kind: str, line: str, parts: list[_Part], units: list[Unit], wanted: Wanted, group: int
) -> None:
    """Add a "Head: words" line; its head and line break come with the first of its words."""
    head, colon, rest = line.partition(": ")
    if colon and " " not in head:
        parts.append(_Part(f"{head}:", group=group))
        rest = " " + rest
    else:
        head, rest = "", line
    lead = _cost(f"{head}:\n") if head else 1
    if kind == "item" and head != "Product":
        tier = min(wanted.price_tier(rest), 2) if head == "Price" else 3
        parts.append(_Part(rest.rstrip("\n"), unit=len(units), group=group))
        units.append(Unit(len(units), tier, _cost(rest) + lead))
    else:
        stretches = _WORD.findall(rest) if kind == "item" else _clauses(rest.rstrip("\n"))
        for stretch in stretches:
            parts.append(_Part(stretch, unit=len(units), group=group))
            units.append(Unit(len(units), wanted.tier(stretch), _cost(stretch) + lead))
    if line.endswith("\n"):
        parts.append(_Part("\n", group=group))


def _clauses(text: str) -> Iterator[str]:
    """Yield stretches of at most a dozen words, broken at punctuation; joined they are the text."""
    start = 0
    breaks = [match.start() for match in _CLAUSE.finditer(text)]
    for end in (*breaks, len(text)):
        words = _WORD.findall(text[start:end])
        for i in range(0, len(words), _CLAUSE_WORDS):
            yield "".join(words[i : i + _CLAUSE_WORDS])
        start = end


@lru_cache(maxsize=65536)
def _cost(text: str) -> int:
    return count_tokens(text)
