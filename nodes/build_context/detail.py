"""Levels of detail: which words of a prompt line may go, and in which order they come back.

A piece of prompt is taken apart into what must stay (the words of its affordances) and units that can
be shown or not: words of titles, stretches of running text, whole lines of history. A unit has a tier:
what the next action most likely hangs on comes first. Showing more units never changes or removes what
is shown already.

    -2  the instruction, without what is mere talk
    -1  leads, without which nobody can tell what the commands after them are; what is settled; the
        last two actions, without which nobody can tell what the page was opened for
    0  amounts beyond the limit
    1  asked words, where entries compete those first (1.1) that tell most of them apart; the few
        stretches that name what is asked; where entries are listed, the actions before the last two
    2  asked words of entries that are out of question, stretches that repeat asked words, other older
        actions, those that only repeat what is asked
    3  everything else, talk in the instruction too
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from stategate.envs.protocols import Chunk, Fragment, View
from stategate.nodes.protocols import Piece
from stategate.nodes.retrieval.align import Focus, headed, parts_of, stretches
from stategate.nodes.retrieval.page import ARROW, BREAK, render, text_of
from stategate.stores.text import words_of
from stategate.stores.tokens import count_tokens

_WORD = re.compile(r"\s*\S+")
#: Tokens from which a clause of the instruction is shown as far as it fits, and words of its stretches.
_LONG, _WORDS = 48, 8


@dataclass(frozen=True)
class Unit:
    """A stretch of a piece that is shown whole or not at all. ``cost`` is in tokens."""

    place: int
    tier: float
    cost: int


@dataclass(frozen=True)
class _Part:
    """A stretch in page order. ``group`` ties separators to the words that they lead."""

    fragment: Fragment
    unit: int | None = None
    group: int | None = None


class Ladder:
    """One piece between its bare affordances and all of its text.

    ``units`` come in the order in which they are to be shown within the piece.
    """

    def __init__(self, parts: Sequence[_Part], units: Sequence[Unit]) -> None:
        self._parts = tuple(parts)
        self.units = tuple(units)

    def show(self, places: Collection[int]) -> list[Fragment]:
        """Return the fragments with the units at the places ``places`` (and all affordances)."""
        alive = {p.group for p in self._parts if p.unit in places and p.group is not None}
        shown: list[Fragment] = []
        for part in self._parts:
            is_shown = part.unit in places if part.unit is not None else part.group in alive
            if part.fragment.action is not None or is_shown:
                shown.append(part.fragment)
        if not shown:
            return []
        shown[0] = replace(shown[0], text=shown[0].text.lstrip())
        return shown if shown[-1].text.endswith("\n") else [*shown, BREAK]


def chunk_ladder(view: View, chunk: Chunk, asked: Focus) -> Ladder:
    """Take the rendering of a chunk apart, each fragment as its role allows."""
    if chunk.role == "past":
        return _past_ladder(chunk, asked)
    made = _Builder(chunk, asked)
    for fragment in render(view, chunk):
        if fragment.action is not None:
            made.parts.append(_Part(fragment))
            continue
        for text in fragment.text.splitlines(keepends=True):
            if text.strip():
                made.add_line(replace(fragment, text=text))
    return made.ladder()


class _Builder:
    """Takes the lines of one chunk apart; parts of one group are shown with the first of its units."""

    def __init__(self, chunk: Chunk, asked: Focus) -> None:
        self._chunk, self._asked = chunk, asked
        self.parts: list[_Part] = []
        self._units: list[Unit] = []
        self._group = 0
        self._said: set[int] = set()

    def add_line(self, line: Fragment) -> None:
        """Add one line of a fragment: a lead stays whole, others come word by word or by stretches."""
        self._group += 1
        if line.role == "lead":
            self.parts.append(_Part(line, unit=len(self._units)))
            self._units.append(Unit(len(self._units), -1, _cost(line.text)))
        elif self._chunk.role == "entry":
            self._add_segments(line)
        else:
            self._add_headed(line)

    def ladder(self) -> Ladder:
        """Return the chunk between its affordances and all of its lines."""
        if self.parts and not self.parts[-1].fragment.text.endswith("\n"):
            self._tie(BREAK)
        return Ladder(self.parts, _in_order(self._units))

    def _tie(self, fragment: Fragment) -> None:
        self.parts.append(_Part(fragment, group=self._group))

    def _add(self, fragment: Fragment, tier: float, cost: int) -> None:
        self.parts.append(_Part(fragment, len(self._units), self._group))
        self._units.append(Unit(len(self._units), tier, cost))

    def _add_segments(self, fragment: Fragment) -> None:
        """Add " | title | $12" of an entry: a segment's bar is shown with the first of its words."""
        asked = self._asked
        is_first = True
        for i, segment in enumerate(fragment.text.rstrip("\n").split(" | ")):
            if not segment.strip() and i == 0:
                continue
            self._group += 1
            self._tie(Fragment(" |" if i else "", role="lead" if is_first else fragment.role))
            is_first = False
            text = f" {segment}" if i else segment
            if fragment.role in ("quantity", "fact"):
                amount = asked.amount_tier(fragment) if fragment.role == "quantity" else 3
                self._add(replace(fragment, text=text), amount, _cost(" | " + segment))
                continue
            lead = 1 if i else 0  # the bar's token is paid by the segment's first word
            for word in _WORD.findall(text):
                tier = asked.title_tier(self._chunk, word, self._said)
                self._add(replace(fragment, text=word), tier, _cost(word) + lead)

    def _add_headed(self, fragment: Fragment) -> None:
        """Add a "Head: words" line; its head and line break come with the first of its words."""
        asked, line = self._asked, fragment.text
        head, rest = headed(line)
        if head:
            self._tie(Fragment(f"{head}:", role="lead" if fragment.label else fragment.role))
        lead = _cost(f"{head}:\n") if head else 1
        words = rest.rstrip("\n")
        if fragment.role in ("quantity", "fact"):
            amount = min(asked.amount_tier(fragment), 2) if fragment.role == "quantity" else 3
            self._add(replace(fragment, text=words), amount, _cost(rest) + lead)
        elif fragment.role == "title":
            for word in _WORD.findall(rest):
                tier = asked.title_tier(self._chunk, word, self._said)
                self._add(replace(fragment, text=word), tier, _cost(word) + lead)
        else:
            for stretch in stretches(words):
                cost = _cost(stretch) + lead
                self._add(replace(fragment, text=stretch), asked.stretch_tier(stretch), cost)
        if line.endswith("\n"):
            self._tie(BREAK)


def _past_ladder(chunk: Chunk, asked: Focus) -> Ladder:
    """Take an earlier step apart: the step with the news in what came of it, then the rest.

    First come steps that say a thing that is asked, or that showed one; then those that showed a value
    that is asked. That one was at such a place is no news: marked commands tell.
    """
    number, action = str(chunk.data["number"]), str(chunk.data["action"])
    step, told = number + action, list(stretches(str(chunk.data["outcome"])))
    tier, news = 3, []
    if chunk.id != "event:start":  # what the first page offered, commands offer still
        said = frozenset(words_of(step))
        things = asked.things
        shows = [asked.words.intersection(words_of(text)) - said for text in told]
        first = [i for i, words in enumerate(shows) if words & things]
        news = [] if said & things else first or [i for i, words in enumerate(shows) if words]
        tier = 1 if said & things or first else 2 if news else 3
    parts = [
        _Part(Fragment(number, role="lead"), unit=0),
        _Part(Fragment(action, role="action"), unit=0),
        _Part(Fragment(ARROW.rstrip(), role="lead"), group=0),
    ]
    head = step + "".join(told[i] for i in news)
    units = [Unit(0, tier, _cost(head) + 1 + bool(news))]
    for i, text in enumerate(told):
        line = " " + text.lstrip()
        place = 0 if i in news else len(units)
        parts.append(_Part(Fragment(line, role="outcome"), unit=place, group=0))
        if place:
            units.append(Unit(place, 3, _cost(line) + 1))
    parts.append(_Part(BREAK, unit=0))
    return Ladder(parts, _in_order(units))


def instruction_ladder(piece: Piece) -> Ladder:
    """Take the instruction's line apart: only what the aligner takes for talk may go, part by part."""
    lead, asked = piece.fragments[0].text, piece.fragments[1].text
    parts: list[_Part] = []
    units: list[Unit] = []
    for start, stop, is_talk in parts_of(asked):
        clause = " " * (start == 0) + asked[start:stop]
        for stretch in _stretches_of(clause):
            units.append(Unit(len(units), 3 if is_talk else -2, _cost(stretch) + (not parts)))
            shown = Fragment(stretch, role="instruction")
            parts.append(_Part(shown, unit=len(units) - 1, group=0))
    first = _Part(Fragment(lead.rstrip(), role="lead"), group=0)
    parts = [first, *parts, _Part(BREAK, group=0)]
    return Ladder(parts, _in_order(units))


def _stretches_of(clause: str) -> list[str]:
    """Return a clause whole, or in stretches where it is so long that a budget may end inside it."""
    if _cost(clause) <= _LONG:
        return [clause]
    found = _WORD.findall(clause)
    return ["".join(found[i : i + _WORDS]) for i in range(0, len(found), _WORDS)]


def plain_ladder(fragments: Sequence[Fragment], *tiers: int) -> Ladder:
    """Take a piece of the frame apart by lines; the last of ``tiers`` is that of all further lines."""
    lines: list[list[Fragment]] = [[]]
    for fragment in fragments:
        if lines[-1] and lines[-1][-1].text.endswith("\n"):
            lines.append([])
        lines[-1].append(fragment)
    parts = [_Part(fragment, unit=i) for i, line in enumerate(lines) for fragment in line]
    units = [
        Unit(i, tiers[min(i, len(tiers) - 1)], _cost(text_of(line))) for i, line in enumerate(lines)
    ]
    return Ladder(parts, _in_order(units))


def echo_ladder(piece: Piece, tier: int) -> Ladder:
    """Take a step apart that wrote what is asked: its first word stays, so that it can be seen."""
    number, action, *rest = piece.fragments
    found = _WORD.match(action.text)
    head = replace(action, text=found[0] if found else action.text)
    more = replace(action, text=action.text[len(head.text) :])
    parts = [_Part(number, unit=0), _Part(head, unit=0)]
    units = [Unit(0, tier, _cost(number.text + head.text))]
    if text := text_of((more, *rest)):
        parts += [_Part(fragment, unit=1) for fragment in (more, *rest)]
        units.append(Unit(1, 3, _cost(text)))
    return Ladder(parts, units)


def _in_order(units: Sequence[Unit]) -> list[Unit]:
    return sorted(units, key=lambda unit: (unit.tier, unit.place))


@lru_cache(maxsize=65536)
def _cost(text: str) -> int:
    return count_tokens(text)
