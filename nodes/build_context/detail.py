"""Levels of detail: the units of a prompt line that may be dropped, and the order of their return.

A piece of prompt is split into the words of its affordances, which must stay, and units that can be
visible or not: words of titles, stretches of running text, whole lines of history. A unit has a tier:
the units that most likely decide the next action come first. Showing more units never changes or
removes visible ones.

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
        visible: list[Fragment] = []
        for part in self._parts:
            is_visible = part.unit in places if part.unit is not None else part.group in alive
            if part.fragment.action is not None or is_visible:
                visible.append(part.fragment)
        if not visible:
            return []
        visible[0] = replace(visible[0], text=visible[0].text.lstrip())
        return visible if visible[-1].text.endswith("\n") else [*visible, BREAK]


def chunk_ladder(view: View, chunk: Chunk, focus: Focus) -> Ladder:
    """Return the ladder of a chunk's rendering, each fragment split as its role allows."""
    if chunk.role == "past":
        return _past_ladder(chunk, focus)
    builder = _Builder(chunk, focus)
    for fragment in render(view, chunk):
        if fragment.action is not None:
            builder.parts.append(_Part(fragment))
            continue
        for text in fragment.text.splitlines(keepends=True):
            if text.strip():
                builder.add_line(replace(fragment, text=text))
    return builder.ladder()


class _Builder:
    """Takes the lines of one chunk apart; parts of one group are shown with the first of its units."""

    def __init__(self, chunk: Chunk, focus: Focus) -> None:
        self._chunk, self._focus = chunk, focus
        self.parts: list[_Part] = []
        self._units: list[Unit] = []
        self._group = 0
        self._title_words: set[int] = set()

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
        focus = self._focus
        is_first = True
        for i, segment in enumerate(fragment.text.rstrip("\n").split(" | ")):
            if not segment.strip() and i == 0:
                continue
            self._group += 1
            self._tie(Fragment(" |" if i else "", role="lead" if is_first else fragment.role))
            is_first = False
            text = f" {segment}" if i else segment
            if fragment.role in ("quantity", "fact"):
                amount = focus.amount_tier(fragment) if fragment.role == "quantity" else 3
                self._add(replace(fragment, text=text), amount, _cost(" | " + segment))
                continue
            lead = 1 if i else 0  # the bar's token is paid by the segment's first word
            for word in _WORD.findall(text):
                tier = focus.title_tier(self._chunk, word, self._title_words)
                self._add(replace(fragment, text=word), tier, _cost(word) + lead)

    def _add_headed(self, fragment: Fragment) -> None:
        """Add a "Head: words" line; its head and line break come with the first of its words."""
        focus, line = self._focus, fragment.text
        head, body = headed(line)
        if head:
            self._tie(Fragment(f"{head}:", role="lead" if fragment.label else fragment.role))
        lead = _cost(f"{head}:\n") if head else 1
        words = body.rstrip("\n")
        if fragment.role in ("quantity", "fact"):
            amount = min(focus.amount_tier(fragment), 2) if fragment.role == "quantity" else 3
            self._add(replace(fragment, text=words), amount, _cost(body) + lead)
        elif fragment.role == "title":
            for word in _WORD.findall(body):
                tier = focus.title_tier(self._chunk, word, self._title_words)
                self._add(replace(fragment, text=word), tier, _cost(word) + lead)
        else:
            for stretch in stretches(words):
                cost = _cost(stretch) + lead
                self._add(replace(fragment, text=stretch), focus.stretch_tier(stretch), cost)
        if line.endswith("\n"):
            self._tie(BREAK)


def _past_ladder(chunk: Chunk, focus: Focus) -> Ladder:
    """Return the ladder of an earlier step: the step with the news in its outcome, then all else.

    Steps that name or showed a thing of the goal come first, then those that showed a value of it. A
    visit to a place of the goal is no news: marked commands show it.
    """
    number, action = str(chunk.data["number"]), str(chunk.data["action"])
    step, outcome = number + action, list(stretches(str(chunk.data["outcome"])))
    tier, news = 3, []
    if chunk.id != "event:start":  # what the first page offered, commands offer still
        step_words = frozenset(words_of(step))
        things = focus.things
        shows = [focus.words.intersection(words_of(text)) - step_words for text in outcome]
        first = [i for i, words in enumerate(shows) if words & things]
        news = [] if step_words & things else first or [i for i, words in enumerate(shows) if words]
        tier = 1 if step_words & things or first else 2 if news else 3
    parts = [
        _Part(Fragment(number, role="lead"), unit=0),
        _Part(Fragment(action, role="action"), unit=0),
        _Part(Fragment(ARROW.rstrip(), role="lead"), group=0),
    ]
    head = step + "".join(outcome[i] for i in news)
    units = [Unit(0, tier, _cost(head) + 1 + bool(news))]
    for i, text in enumerate(outcome):
        line = " " + text.lstrip()
        place = 0 if i in news else len(units)
        parts.append(_Part(Fragment(line, role="outcome"), unit=place, group=0))
        if place:
            units.append(Unit(place, 3, _cost(line) + 1))
    parts.append(_Part(BREAK, unit=0))
    return Ladder(parts, _in_order(units))


def instruction_ladder(piece: Piece) -> Ladder:
    """Return the ladder of the instruction: only parts that the aligner takes for talk may go."""
    lead, instruction = piece.fragments[0].text, piece.fragments[1].text
    parts: list[_Part] = []
    units: list[Unit] = []
    for start, stop, is_talk in parts_of(instruction):
        clause = " " * (start == 0) + instruction[start:stop]
        for stretch in _stretches_of(clause):
            units.append(Unit(len(units), 3 if is_talk else -2, _cost(stretch) + (not parts)))
            fragment = Fragment(stretch, role="instruction")
            parts.append(_Part(fragment, unit=len(units) - 1, group=0))
    first = _Part(Fragment(lead.rstrip(), role="lead"), group=0)
    parts = [first, *parts, _Part(BREAK, group=0)]
    return Ladder(parts, _in_order(units))


def _stretches_of(clause: str) -> list[str]:
    """Return a clause whole, or in stretches where it is so long that a budget may end inside it."""
    if _cost(clause) <= _LONG:
        return [clause]
    words = _WORD.findall(clause)
    return ["".join(words[i : i + _WORDS]) for i in range(0, len(words), _WORDS)]


def plain_ladder(fragments: Sequence[Fragment], *tiers: int) -> Ladder:
    """Return the ladder of a frame piece by lines; the last of ``tiers`` holds for further lines."""
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
    """Return the ladder of a step that wrote the goal's words: its first word marks the step."""
    number, action, *others = piece.fragments
    match = _WORD.match(action.text)
    head = replace(action, text=match[0] if match else action.text)
    more = replace(action, text=action.text[len(head.text) :])
    parts = [_Part(number, unit=0), _Part(head, unit=0)]
    units = [Unit(0, tier, _cost(number.text + head.text))]
    if text := text_of((more, *others)):
        parts += [_Part(fragment, unit=1) for fragment in (more, *others)]
        units.append(Unit(1, 3, _cost(text)))
    return Ladder(parts, units)


def _in_order(units: Sequence[Unit]) -> list[Unit]:
    return sorted(units, key=lambda unit: (unit.tier, unit.place))


@lru_cache(maxsize=65536)
def _cost(text: str) -> int:
    return count_tokens(text)
