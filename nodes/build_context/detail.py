"""Levels of detail: which words of a prompt line may go, and in which order they come back.

A piece of prompt is taken apart into what must stay (the words of its affordances) and units that can
be shown or not: words of titles, clauses of running text, whole lines of history. A unit has a tier:
what the next action most likely hangs on comes first. Showing more units never changes or removes what
is shown already.

    -2  the instruction: its option clauses where the page offers options, else its other words
    -1  leads ("Option size:"), without which nobody can tell what the values are; what is chosen;
        the last two actions, without which nobody can tell what the page was opened for
    0  the rest of the instruction, prices above the limit
    1  asked words that tell one chunk from another; the few clauses that name what is asked; where
        products are listed, the actions before the last two
    2  asked words that most chunks of the page share, clauses that repeat them, other older actions
    3  everything else
"""

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nodes.act.shop.reading import read_wish
from nodes.build_context.render import Fragment
from nodes.build_context.wanted import Wanted, clauses, headed
from nodes.protocols import Piece
from stores.tokens import count_tokens

_WORD = re.compile(r"\s*\S+")
_HEAD_WORDS = 3  # "Instruction: Find me", without which the rest is no sentence
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


def instruction_ladder(text: str, page: Collection[str]) -> Ladder:
    """Take the instruction apart by clauses, for a page with these kinds of chunks.

    Where the page offers options, the option clauses come first; where it shows products or text,
    what is asked of those; a page with nothing to read needs all of it for the search. Half a clause
    would say something else than the clause, so each is one unit.
    """
    wish = read_wish(text.removeprefix("Instruction: ").rstrip("\n"))
    places = [text.find(f"{name}: {value}") for name, value in wish.options]
    # A clause starts with the joint before its name: " with color: ", ", and size: " (the comma stays).
    joints = [max(text.rfind(" with ", 0, at), text.rfind(" and ", 0, at)) for at in places]
    starts = sorted({at for at in joints if at > 0})
    limit = text.rfind(" and price lower than ")
    head = len("".join(_WORD.findall(text)[:_HEAD_WORDS]))
    first = next(iter(starts), limit if limit > 0 else len(text))
    asks = "options" in page, "product" in page or "detail" in page
    rest = 2 if "detail" in page else 0
    cuts = sorted({0, min(head, first), *starts, *([limit] if limit > 0 else []), len(text)})
    parts: list[_Part] = []
    units: list[Unit] = []
    for start, end in itertools.pairwise(cuts):
        clause = text[start:end].rstrip("\n")
        if not clause:
            continue
        is_limit = start == limit
        needed = start in starts if asks[0] else start < first if asks[1] else True
        tier = -2 if start == 0 or (needed and (not is_limit or not any(asks))) else rest
        units.append(Unit(len(units), tier, _cost(clause) + (start == 0)))
        parts.append(_Part(clause, unit=len(units) - 1))
    parts.append(_Part("\n"))
    return Ladder(parts, sorted(units, key=lambda unit: (unit.tier, unit.place)))


def plain_ladder(piece: Piece, *tiers: int) -> Ladder:
    """Take any other piece apart by lines; each has the next of ``tiers``, the last one the rest."""
    lines = piece.text.splitlines(keepends=True)
    parts = [_Part(line, unit=i) for i, line in enumerate(lines)]
    units = [Unit(i, tiers[min(i, len(tiers) - 1)], _cost(line)) for i, line in enumerate(lines)]
    return Ladder(parts, sorted(units, key=lambda unit: (unit.tier, unit.place)))


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
    head, rest = headed(line)
    if head:
        parts.append(_Part(f"{head}:", group=group))
    lead = _cost(f"{head}:\n") if head else 1
    if kind == "item" and head != "Product":
        tier = min(wanted.price_tier(rest), 2) if head == "Price" else 3
        parts.append(_Part(rest.rstrip("\n"), unit=len(units), group=group))
        units.append(Unit(len(units), tier, _cost(rest) + lead))
    else:
        stretches = _WORD.findall(rest) if kind == "item" else clauses(rest.rstrip("\n"))
        for stretch in stretches:
            tier = wanted.tier(stretch) if kind == "item" else wanted.clause_tier(stretch)
            parts.append(_Part(stretch, unit=len(units), group=group))
            units.append(Unit(len(units), tier, _cost(stretch) + lead))
    if line.endswith("\n"):
        parts.append(_Part("\n", group=group))


@lru_cache(maxsize=65536)
def _cost(text: str) -> int:
    return count_tokens(text)
