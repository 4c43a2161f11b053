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
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from stategate.envs.protocols import Chunk, Fragment, FragmentRole
from stategate.nodes.protocols import Piece
from stategate.nodes.retrieval.align import Focus, parts_of, split_head, stretches, word_runs
from stategate.nodes.retrieval.page import ARROW, BREAK, lead, render, text_of
from stategate.stores.text import words_of
from stategate.stores.tokens import count_tokens

_WORD = re.compile(r"\s*\S+")
_LONG = 48  # tokens from which a clause of the instruction is shown as far as it fits


#: The tier, the index and the tokens of a stretch of a piece that is shown whole or not at all.
Unit: TypeAlias = tuple[float, int, int]


class Ladder:
    """One piece between its bare affordances and all of its text: fragments, and the units to show.

    A fragment belongs to a unit, or is tied to its group: it is shown with the first of the group's
    units. Affordances are always shown.
    """

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self._parts: list[tuple[Fragment, int | None, int]] = []
        self._group = 0

    def unit(self, tier: float, cost: int) -> int:
        """Add a unit; return its index."""
        self.units.append((tier, len(self.units), cost))
        return len(self.units) - 1

    def add(self, fragment: Fragment, unit: int | None = None) -> None:
        """Add a fragment of the unit with this index, or one that is tied to its group."""
        self._parts.append((fragment, unit, self._group))

    def next_group(self) -> None:
        """Begin another group."""
        self._group += 1

    def show(self, indices: Collection[int]) -> list[Fragment]:
        """Return the fragments with the units of these ``indices`` (and all affordances)."""
        groups = {group for _, unit, group in self._parts if unit in indices}
        visible = [
            fragment
            for fragment, unit, group in self._parts
            if fragment.action is not None or (group in groups if unit is None else unit in indices)
        ]
        if not visible:
            return []
        visible[0] = replace(visible[0], text=visible[0].text.lstrip())
        return visible if visible[-1].text.endswith("\n") else [*visible, BREAK]


def chunk_ladder(chunk: Chunk, focus: Focus) -> Ladder:
    """Return the ladder of a chunk's rendering, each fragment split as its role allows."""
    if chunk.role == "past":
        return _past_ladder(chunk, focus)
    ladder = Ladder()
    title_words: set[int] = set()
    for fragment in render(chunk):
        if fragment.action is not None:
            ladder.add(fragment)
            continue
        for text in fragment.text.splitlines(keepends=True):
            line = replace(fragment, text=text)
            ladder.next_group()
            if not text.strip():
                continue
            if line.role == "lead":
                ladder.add(line, ladder.unit(-1, _cost(text)))
            elif chunk.role == "entry":
                _add_segments(ladder, chunk, focus, line, title_words)
            else:
                _add_headed(ladder, chunk, focus, line, title_words)
    return ladder


def _add_segments(
    ladder: Ladder, chunk: Chunk, focus: Focus, line: Fragment, title_words: set[int]
) -> None:
    """Add " | title | $12" of an entry: a segment's bar is shown with the first of its words."""
    role: FragmentRole = "lead"
    for i, segment in enumerate(line.text.rstrip("\n").split(" | ")):
        if not segment.strip() and i == 0:
            continue
        ladder.next_group()
        ladder.add(Fragment(" |" if i else "", role=role))
        role = line.role
        text = f" {segment}" if i else segment
        if line.role in ("quantity", "fact"):
            tier = focus.amount_tier(line) if line.role == "quantity" else 3
            ladder.add(replace(line, text=text), ladder.unit(tier, _cost(" | " + segment)))
        else:  # the bar's token is paid by the segment's words
            _add_words(ladder, chunk, focus, replace(line, text=text), 1 if i else 0, title_words)


def _add_headed(
    ladder: Ladder, chunk: Chunk, focus: Focus, line: Fragment, title_words: set[int]
) -> None:
    """Add a "Head: words" line; its head and line break come with the first of its words."""
    head, body = split_head(line.text)
    if head:
        ladder.add(Fragment(f"{head}:", role="lead" if line.label else line.role))
    before = _cost(f"{head}:\n") if head else 1
    words = replace(line, text=body.rstrip("\n"))
    if line.role in ("quantity", "fact"):
        tier = min(focus.amount_tier(line), 2) if line.role == "quantity" else 3
        ladder.add(words, ladder.unit(tier, _cost(body) + before))
    elif line.role == "title":
        _add_words(ladder, chunk, focus, words, before, title_words)
    else:
        for stretch in stretches(words.text):
            unit = ladder.unit(focus.stretch_tier(stretch), _cost(stretch) + before)
            ladder.add(replace(line, text=stretch), unit)
    if line.text.endswith("\n"):
        ladder.add(BREAK)


def _add_words(
    ladder: Ladder, chunk: Chunk, focus: Focus, line: Fragment, before: int, title_words: set[int]
) -> None:
    """Add the words of a title, a unit each; ``before`` is what stands before one, in tokens."""
    for word in _WORD.findall(line.text):
        tier = focus.title_tier(chunk, word, title_words)
        ladder.add(replace(line, text=word), ladder.unit(tier, _cost(word) + before))


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
    ladder = Ladder()
    head = ladder.unit(tier, _cost(step + "".join(outcome[i] for i in news)) + 1 + bool(news))
    ladder.add(lead(number), head)
    ladder.add(Fragment(action, role="action"), head)
    ladder.next_group()  # the arrow leads what is shown of the outcome
    ladder.add(lead(ARROW.rstrip()))
    for i, text in enumerate(outcome):
        line = " " + text.lstrip()
        unit = head if i in news else ladder.unit(3, _cost(line) + 1)
        ladder.add(Fragment(line, role="outcome"), unit)
    return ladder


def instruction_ladder(piece: Piece) -> Ladder:
    """Return the ladder of the instruction: only parts that the aligner takes for talk may go."""
    first, instruction = piece.fragments[0].text, piece.fragments[1].text
    ladder = Ladder()
    ladder.add(lead(first.rstrip()))
    for start, stop, is_talk in parts_of(instruction):
        clause = " " * (start == 0) + instruction[start:stop]
        for stretch in word_runs(clause) if _cost(clause) > _LONG else (clause,):
            cost = _cost(stretch) + (not ladder.units)
            fragment = Fragment(stretch, role="instruction")
            ladder.add(fragment, ladder.unit(3 if is_talk else -2, cost))
    return ladder


def plain_ladder(fragments: Sequence[Fragment], *tiers: int) -> Ladder:
    """Return the ladder of a frame piece by lines; the last of ``tiers`` holds for further lines."""
    lines: list[list[Fragment]] = [[]]
    for fragment in fragments:
        if lines[-1] and lines[-1][-1].text.endswith("\n"):
            lines.append([])
        lines[-1].append(fragment)
    return _ladder_of(lines, tiers)


def echo_ladder(piece: Piece, tier: int) -> Ladder:
    """Return the ladder of a step that wrote the goal's words: its first word marks the step."""
    number, action, *others = piece.fragments
    match = _WORD.match(action.text)
    head = replace(action, text=match[0] if match else action.text)
    more = replace(action, text=action.text[len(head.text) :])
    return _ladder_of([[number, head], [more, *others]], (tier, 3))


def _ladder_of(groups: Sequence[Sequence[Fragment]], tiers: Sequence[int]) -> Ladder:
    """Return the ladder in which each group is a unit."""
    ladder = Ladder()
    for i, group in enumerate(groups):
        unit = ladder.unit(tiers[min(i, len(tiers) - 1)], _cost(text_of(group)))
        for fragment in group:
            ladder.add(fragment, unit)
    return ladder


@lru_cache(maxsize=65536)
def _cost(text: str) -> int:
    return count_tokens(text)
