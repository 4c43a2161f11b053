"""A history as slots: each message before a call, and what the call shows of it.

:meth:`History.prepared` makes the messages of the call, the decisions for the next call, and the audit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from langchain_core.messages import BaseMessage, ToolMessage

from stategate.envs.messages.history import (
    LARGEST,
    NO_TEXT,
    bounded,
    calls_of,
    digest,
    keys_of,
    names_of,
    repaired,
    rounds_of,
    text_of,
    tokens_in,
    tokens_of,
    tool_of,
    tools_called,
    with_text,
)
from stategate.envs.messages.outline import Outline
from stategate.nodes.build_context.messages.decisions import (
    Audit,
    Decisions,
    Fate,
    HistorySettings,
    PreparedCall,
    Row,
)
from stategate.nodes.build_context.messages.features import ThreadFacts
from stategate.nodes.build_context.messages.parts import is_shortened
from stategate.nodes.protocols import Vector
from stategate.stores.errors import warn_once

#: Tokens that the note of a shortened result may have.
NOTE_TOKENS = 14
_LEFT_OUT_TOKENS = 90  # that its note may have
_FOR_RESULTS = 0.25  # share of what a cut leaves that parts of old results get, at least
_LISTED, _QUOTED = 4, 48  # turns of people that it names, and characters of each
_FADING = 0.9  # what a call counts for its request after each later one
_CALLS, _TURNS = "calls that no longer fit", "the oldest turns, after the calls"
_ORPHAN = "a call without its result, or a result without its call"


@dataclass
class Slot:
    """One message. ``size`` counts all of it, ``text_size`` a result's text alone.

    ``tool`` gave this result; it ``is_new`` if no call has shown it yet. ``is_pinned``: it stays whole.
    ``is_huge``: no model reads it whole. No part of a result has its ``beyond`` tokens: a huge one's
    middle, or the markup of HTML. ``shown`` is the visible text of a result (None: all of it),
    ``omitted`` the message's fate if it goes; ``why`` either was decided.
    """

    index: int
    key: str
    name: str
    message: BaseMessage
    size: int
    text: str
    text_size: int
    tool: str
    is_new: bool
    is_pinned: bool
    is_huge: bool
    beyond: int
    shown: str | None = None
    omitted: Literal["", "left out", "orphan"] = ""
    why: str = ""

    @property
    def is_result(self) -> bool:
        """Whether a tool returned it."""
        return isinstance(self.message, ToolMessage)

    @property
    def has_calls(self) -> bool:
        """Whether it is of a round of calls and results."""
        return self.is_result or bool(calls_of(self.message))

    @property
    def visible_size(self) -> int:
        """Tokens of what is shown of the message."""
        if self.omitted:
            return 0
        hidden = 0 if self.shown is None else self.text_size - tokens_in(self.shown)
        return self.size - hidden

    @property
    def fate(self) -> Fate:
        """What the call shows of the message."""
        if self.omitted or self.shown is None:
            return self.omitted or "whole"
        is_note = is_shortened(self.shown) and "\n" not in self.shown
        return "note" if is_note else "shortened"

    @property
    def least_size(self) -> int:
        """Tokens that the message costs where nothing but its note is shown of a result."""
        hidden = 0 if self.is_pinned else max(self.text_size - NOTE_TOKENS, 0)
        return self.size - hidden


@dataclass
class History:
    """The messages before a call; ``fixed`` are the tokens of tools and system message.

    ``slots`` are the messages that providers take; ``orphans`` those of calls without their results,
    and results without their call. ``recall`` is the recall tool's name, "" where there is none.
    ``thread`` is what the need scorer read of it, ``chances`` the chances of results' parts, by index.
    """

    messages: Sequence[BaseMessage]
    slots: Sequence[Slot]
    rounds: Sequence[Sequence[Slot]]
    orphans: Sequence[Slot]
    fixed: int
    recall: str
    thread: tuple[Vector, ThreadFacts] | None = None
    chances: dict[int, Vector] = field(default_factory=dict)
    is_cut: bool = False

    @classmethod
    def of(
        cls,
        messages: Sequence[BaseMessage],
        previous: Decisions,
        settings: HistorySettings,
        *,
        fixed: int,
        recall: str,
    ) -> "History":
        """Return the history of ``messages``, of which earlier calls decided ``previous``."""
        valid = repaired(messages)
        keys, names = keys_of(messages), names_of(messages)
        tools, left_out = tools_called([*valid.values()]), {*previous.left_out}
        standing: list[Slot] = []
        orphans: list[Slot] = []
        for index, original in enumerate(messages):
            message = valid.get(index, original)
            key, whole = keys[index], text_of(message)
            text = bounded(whole)
            is_result = isinstance(message, ToolMessage)
            size = tokens_in(whole) if is_result else 0
            is_all = not is_result or isinstance(text, Outline) or text == whole
            is_huge = is_result and len(whole) > LARGEST
            is_pinned = key in previous.restored or settings.is_pinned(original)
            if is_huge and is_pinned:
                warn_once(
                    f"a result of {len(whole):,} characters is too long to be pinned or restored"
                )
            slot = Slot(
                index=index,
                key=key,
                name=names[index],
                message=message,
                size=tokens_of(message),
                text=text,
                text_size=size,
                tool=tool_of(message, tools),
                is_new=False,
                is_pinned=is_pinned and not is_huge,
                is_huge=is_huge,
                beyond=0 if is_all else size - tokens_in(text),
                omitted="left out" if key in left_out else "",
                why="as before",
            )
            check, before = previous.frozen.get(key, (None, None))
            if check == digest(text) and is_result and not slot.is_pinned and not slot.omitted:
                slot.shown = before
            if index in valid:
                standing.append(slot)
            else:
                slot.omitted, slot.why = "orphan", _ORPHAN
                orphans.append(slot)
        rounds = [standing[r.start : r.stop] for r in rounds_of([s.message for s in standing])]
        for slots in rounds:
            if any(slot.is_pinned for slot in slots):  # one was restored: its round comes back
                for slot in slots:
                    slot.omitted = ""
        for slot in rounds[-1] if rounds else ():
            slot.is_new = slot.is_result and slot.shown is None
        return cls(messages, standing, rounds, orphans, fixed, recall)

    @property
    def size(self) -> int:
        """Tokens of the whole prompt."""
        noted = self._noted()
        sizes = [slot.visible_size for slot in self.slots if slot.index not in noted]
        return self.fixed + sum(sizes) + sum(map(tokens_of, noted.values()))

    def leave_out(self, room: int, last_room: int) -> None:
        """Choose anew which messages to leave out, so that the others fit ``room`` tokens.

        Each result counts as its note, and a share of the room is for more of them. Rounds of calls
        go first, those first whose results have the least ``chances`` of need per token, then the
        oldest; then turns. Turns without text, which no recall can show, and the present work's
        request go to fit ``last_room`` alone. The last round, pinned messages and the first of
        :meth:`_requests` never go.
        """
        requests, present = self._requests()
        room, last_room = (each - round(each * _FOR_RESULTS) for each in (room, last_room))

        def order(slots: Sequence[Slot]) -> tuple[bool, bool, float]:
            first = slots[0]
            is_turn = not first.has_calls
            is_last = is_turn and (first.key == present or not first.text.strip())
            scored = (self.chances[s.index] for s in slots if s.index in self.chances)
            expected = sum(float(each.sum()) for each in scored)
            return is_turn, is_last, expected / sum(slot.least_size for slot in slots)

        needed = sum(slot.least_size for slot in self.slots)
        if needed > room or self.orphans:
            needed += _LEFT_OUT_TOKENS
        for slot in self.slots:
            slot.omitted = ""
        for slots in sorted(self.rounds[:-1], key=order):
            if needed <= (last_room if order(slots)[1] else room):
                break
            first = slots[0]
            stays = first.key in requests or any(slot.is_pinned for slot in slots)
            if not stays and first.message.type != "system":
                needed -= sum(slot.least_size for slot in slots)
                for slot in slots:
                    slot.omitted, slot.shown = "left out", None
                    slot.why = _CALLS if slot.has_calls else _TURNS

    def _requests(self) -> tuple[set[str], str]:
        """Return the keys of the requests that stay, and of the one that started the present work.

        Those that stay are the first, the last, and the one that most calls followed. The present
        work's is of those before the last, where a call counts less with each one after it.
        """
        turns: list[str] = []
        callers: list[str] = []
        for slots in self.rounds:
            if slots[0].message.type == "human":
                turns.append(slots[0].key)
            elif turns and slots[0].has_calls:
                callers.append(turns[-1])
        if not turns:
            return set(), ""
        weights = dict.fromkeys(turns, 0.0)
        for age, key in enumerate(reversed(callers)):
            weights[key] += _FADING**age
        present = max(turns[:-1] or turns, key=weights.__getitem__)
        return {turns[0], max(turns, key=callers.count), turns[-1]}, present

    def _noted(self) -> dict[int, BaseMessage]:
        """Return, by its index, the last request before what is left out, with a note of that.

        As a message of its own the note would follow a result or a request: Mistral refuses it.
        """
        left_out = [slot for slot in self.slots if slot.omitted]
        count = len(left_out) + sum(bool(slot.text.strip()) for slot in self.orphans)
        if not count or not self.slots:
            return {}
        turns = [slot for slot in left_out if slot.message.type == "human"][-_LISTED:]
        quoted = [f'{s.name} "{" ".join(s.text.split())[:_QUOTED] or NO_TEXT}"' for s in turns]
        way_back = f"; {self.recall} finds them by words or by id" if self.recall else ""
        listed = f". The user said: {', '.join(quoted)}" if quoted else ""
        text = f"[left out {count} earlier message{'s' * (count > 1)}{way_back}{listed}]"
        visible = [s for s in self.slots if not s.omitted]
        people = [s for s in visible if s.message.type == "human"] or visible[:1]
        first = min(slot.index for slot in (*left_out, *self.orphans))
        place = next((s for s in reversed(people) if s.index < first), people[0])
        content = place.message.content
        block = {"type": "text", "text": text}
        noted = f"{content}\n\n{text}" if isinstance(content, str) else [*content, block]
        return {place.index: place.message.model_copy(update={"content": noted})}

    def prepared(self, previous: Decisions, settings: HistorySettings) -> PreparedCall:
        """Return the messages that the call reads; those shown whole are the very same."""
        decisions = replace(
            previous,
            frozen={
                slot.key: [digest(slot.text), slot.shown]
                for slot in self.slots
                if slot.shown is not None
            },
            left_out=[slot.key for slot in self.slots if slot.omitted],
            cuts=previous.cuts + self.is_cut,
        )
        noted = self._noted()
        messages: list[BaseMessage] = []
        for slot in self.slots:
            message, shown = noted.get(slot.index, slot.message), slot.shown
            if not slot.omitted:
                messages.append(message if shown is None else with_text(message, shown))
        rows = tuple(
            Row(s.key, s.name, s.message.type, s.fate, s.size, s.visible_size, s.why)
            for s in (*self.slots, *self.orphans)
            if s.fate != "whole"
        )
        audit = Audit(
            settings.kind,
            settings.budget,
            self.fixed + sum(map(tokens_of, self.messages)),
            self.size,
            self.fixed,
            self.is_cut,
            whole=len(self.messages) - len(rows),
            rows=rows,
        )
        return PreparedCall(tuple(messages), decisions, audit)
