"""A history as slots, and a plan: the fate of each message in one call.

A plan is a value: functions take one and return the next. ``apply`` turns it into the messages of the
call, the decisions for the next call, and the audit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from stategate.envs.messages.history import (
    bounded,
    calls_of,
    digest,
    key_of,
    name_of,
    repaired,
    rounds_of,
    text_of,
    tokens_in,
    tokens_of,
    tool_of,
    tools_called,
    with_text,
)
from stategate.nodes.build_context.messages.decisions import (
    Audit,
    Decisions,
    Fate,
    HistorySettings,
    PreparedCall,
    Row,
)
from stategate.nodes.build_context.messages.parts import Rendering, note
from stategate.nodes.protocols import Vector

#: Tokens that the note of a shortened result may have.
NOTE_TOKENS = 14
#: The message that says what was left out.
NOTE_ID = "stategate-note"
_LEFT_OUT_TOKENS = 90  # that its note may have
_LISTED, _QUOTED = 4, 48  # turns of people that it names, and characters of each
_WHY = {
    True: "calls that no longer fit",
    False: "the oldest turns, after the calls",
}


@dataclass(frozen=True)
class Slot:
    """One message. ``size`` counts all of it, ``text_size`` a result's text alone.

    ``tool`` gave this result, ``frozen`` is what earlier calls showed of it. A result ``is_new`` that
    no call has shown yet. ``is_pinned``: it stays whole.
    """

    place: int
    key: str
    name: str
    message: BaseMessage
    size: int
    text: str
    text_size: int
    tool: str
    frozen: str | None
    is_new: bool
    is_pinned: bool

    @property
    def is_result(self) -> bool:
        """Whether a tool returned it."""
        return isinstance(self.message, ToolMessage)

    @property
    def has_calls(self) -> bool:
        """Whether it is of a round of calls and results."""
        return self.is_result or bool(calls_of(self.message))

    @property
    def bare_size(self) -> int:
        """Tokens beside the text: role, ids, images."""
        return self.size - self.text_size

    @property
    def least_size(self) -> int:
        """Tokens that the message costs where nothing but its note is shown of a result."""
        if self.is_pinned or not self.is_result:
            return self.size
        return self.bare_size + min(self.text_size, NOTE_TOKENS)

    def note(self, recall: str, why: str) -> Rendering:
        """Return the shortest rendering of a result: the note alone, or a text that is shorter."""
        text = note(self.text_size, self.name, recall)
        size = tokens_in(text)
        if size >= self.text_size:
            return Rendering(self.text, tokens_in(self.text), why)
        return Rendering(text, size, why, is_note=True)


@dataclass(frozen=True)
class Plan:
    """The fates of messages by their places; a message without an entry is shown whole.

    ``left_out`` says why a message goes.
    """

    left_out: Mapping[int, str] = field(default_factory=dict)
    renderings: Mapping[int, Rendering] = field(default_factory=dict)
    is_cut: bool = False

    def size_of(self, slot: Slot) -> int:
        """Return the tokens of a message's visible part."""
        if slot.place in self.left_out:
            return 0
        return slot.bare_size + self.text_size_of(slot)

    def text_size_of(self, slot: Slot) -> int:
        """Return the tokens of a result's visible text."""
        rendering = self.renderings.get(slot.place)
        return slot.text_size if rendering is None else rendering.size

    def showing(self, slot: Slot, rendering: Rendering) -> "Plan":
        """Return the plan with another rendering of a result."""
        return replace(self, renderings={**self.renderings, slot.place: rendering})


@dataclass(frozen=True)
class History:
    """The messages before a call; ``fixed`` are the tokens of tools and system message.

    ``slots`` are the messages that providers take: not those of calls without their results, nor of
    results without their call. ``recall`` is the name of the recall tool, "" where there is none.
    """

    messages: Sequence[BaseMessage]
    slots: Sequence[Slot]
    rounds: Sequence[Sequence[Slot]]
    fixed: int
    recall: str = ""
    state: Vector | None = None

    @classmethod
    def of(
        cls,
        messages: Sequence[BaseMessage],
        previous: Decisions,
        fixed: int,
        settings: HistorySettings,
    ) -> "History":
        """Return the history of ``messages``, of which earlier calls decided ``previous``."""
        standing = repaired(messages)
        places, members = list(standing), list(standing.values())
        names = tools_called(members)
        rounds: list[list[Slot]] = []
        every = rounds_of(members)
        for round_ in every:
            slots: list[Slot] = []
            for place, message in ((places[i], members[i]) for i in round_):
                key, whole = key_of(messages[place], place), text_of(message)
                text = bounded(whole)
                is_result = isinstance(message, ToolMessage)
                check, before = previous.frozen.get(key, (None, ""))
                frozen = before if is_result and check == digest(text) else None
                slot = Slot(
                    place=place,
                    key=key,
                    name=name_of(messages[place], place),
                    message=message,
                    size=tokens_of(message),
                    text=text,
                    text_size=tokens_in(whole) if is_result else 0,
                    tool=tool_of(message, names),
                    frozen=frozen,
                    is_new=is_result and frozen is None and round_ is every[-1],
                    is_pinned=key in previous.restored or settings.is_pinned(messages[place]),
                )
                slots.append(slot)
            rounds.append(slots)
        slots = [slot for round_slots in rounds for slot in round_slots]
        return cls(messages, slots, rounds, fixed)

    def size(self, plan: Plan) -> int:
        """Return the tokens of the whole prompt under ``plan``."""
        left_out = note_of(self, plan)
        size = self.fixed + sum(plan.size_of(slot) for slot in self.slots)
        return size + (tokens_of(left_out) if left_out else 0)

    def left_out_within(self, room: int, needs: Mapping[str, float]) -> dict[int, str]:
        """Return the places of messages to leave out, and why: the others fit ``room`` tokens.

        Each result counts as its note. Rounds of calls go first, those first whose results have the
        least ``needs`` (expected, by key) per token, then the oldest; then turns. The last round,
        pinned messages and :meth:`_requests` never go.
        """

        def order(slots: Sequence[Slot]) -> tuple[bool, float]:
            expected = sum(needs.get(slot.key, 0.0) for slot in slots)
            return not slots[0].has_calls, expected / sum(slot.least_size for slot in slots)

        requests = self._requests()
        needed = self.fixed + sum(slot.least_size for slot in self.slots)
        if needed > room:
            needed += _LEFT_OUT_TOKENS
        why: dict[int, str] = {}
        for slots in sorted(self.rounds[:-1], key=order):
            if needed <= room:
                break
            first = slots[0]
            stays = first.key in {NOTE_ID, *requests} or any(slot.is_pinned for slot in slots)
            if not stays and first.message.type != "system":
                needed -= sum(slot.least_size for slot in slots)
                why |= {slot.place: _WHY[slot.has_calls] for slot in slots}
        return why

    def _requests(self) -> set[str]:
        """Return the keys of the first request, the one that most calls followed, and the last."""
        calls: dict[str, int] = {}
        current = ""
        for slots in self.rounds:
            if slots[0].message.type == "human" and slots[0].key != NOTE_ID:
                current = slots[0].key
                calls[current] = 0
            elif current and slots[0].has_calls:
                calls[current] += 1
        if not calls:
            return set()
        started = max(calls, key=lambda key: calls[key])
        return {next(iter(calls)), started, current}


def note_of(history: History, plan: Plan) -> HumanMessage | None:
    """Return the message that stands for those left out, None where there are none."""
    gone = [slot for slot in history.slots if slot.place in plan.left_out]
    if not gone:
        return None
    turns = [slot for slot in gone if slot.message.type == "human"][-_LISTED:]
    quoted = [f'{slot.name} "{" ".join(slot.text.split())[:_QUOTED]}"' for slot in turns]
    way_back = f"; {history.recall} finds them by words or by id" if history.recall else ""
    listed = f". The user said: {', '.join(quoted)}" if quoted else ""
    text = f"[left out {len(gone)} earlier messages{way_back}{listed}]"
    return HumanMessage(text, id=NOTE_ID)


def apply(
    history: History, plan: Plan, previous: Decisions, settings: HistorySettings
) -> PreparedCall:
    """Return the messages that a call reads under ``plan``; those shown whole are the very same."""
    slots = {slot.place: slot for slot in history.slots}
    frozen = {
        slots[place].key: (digest(slots[place].text), rendering.text)
        for place, rendering in plan.renderings.items()
    }
    decisions = replace(
        previous,
        frozen=frozen,
        left_out=tuple(slots[place].key for place in plan.left_out),
        cuts=previous.cuts + plan.is_cut,
    )
    messages: list[BaseMessage] = []
    rows: list[Row] = []
    left_out = note_of(history, plan)
    for slot in history.slots:
        row = Row(slot.key, slot.name, slot.message.type, "left out", slot.size, 0, "")
        if slot.place in plan.left_out:
            rows.append(replace(row, why=plan.left_out[slot.place]))
            if left_out is not None:  # one message, where the first of them stood
                messages.append(left_out)
                left_out = None
        elif (rendering := plan.renderings.get(slot.place)) is not None:
            fate: Fate = "note" if rendering.is_note else "shortened"
            size = plan.size_of(slot)
            rows.append(replace(row, fate=fate, tokens_after=size, why=rendering.why))
            messages.append(with_text(slot.message, rendering.text))
        else:
            messages.append(slot.message)
    for place, orphan in enumerate(history.messages):
        if place in slots:
            continue
        key, name, size = key_of(orphan, place), name_of(orphan, place), tokens_of(orphan)
        why = "a call without its result, or a result without its call"
        rows.append(Row(key, name, orphan.type, "orphan", size, 0, why))
    audit = Audit(
        settings.kind,
        settings.budget,
        history.fixed + sum(map(tokens_of, history.messages)),
        history.size(plan),
        history.fixed,
        plan.is_cut,
        whole=len(history.messages) - len(rows),
        rows=tuple(rows),
    )
    return PreparedCall(tuple(messages), decisions, audit)
