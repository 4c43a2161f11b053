"""A history as slots, and a plan: the fate of each message in one call.

A plan is a value: functions take one and return the next. ``apply`` turns it into the messages of the
call, the decisions for the next call, and the audit.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from stategate.envs.messages.history import (
    MESSAGE_TOKENS,
    Count,
    bounded,
    calls_of,
    digest,
    key_of,
    name_of,
    repaired,
    rounds_of,
    text_of,
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

#: In a message's metadata: this result was shortened, and is not shortened a second time.
SHORTENED = "stategate_shortened"
#: Tokens that the note of a shortened result may have.
NOTE_TOKENS = 14
_APPENDIX_ID = "stategate-appendix-"
#: The message that says what was left out.
NOTE_ID = "stategate-note"
_LEFT_OUT_TOKENS = 90  # that its note may have
_LISTED, _QUOTED = 4, 48  # turns of people that it names, and characters of each
_WHY = {
    True: "the oldest calls, which no longer fit",
    False: "the oldest turns, after the calls",
}


@dataclass(frozen=True)
class Slot:
    """One message. ``size`` counts all of it, ``text_size`` a result's text alone.

    ``tool`` gave this result, ``frozen`` is what earlier calls showed of it. A result ``is_new`` that
    no call has shown yet. ``has_calls``: it is of a round of calls and results. ``is_pinned``: it
    stays whole; ``stays``: it or another of its round is pinned.
    """

    place: int
    key: str
    name: str
    message: BaseMessage
    size: int
    text: str
    text_size: int
    tool: str = ""
    frozen: str | None = None
    is_result: bool = False
    is_new: bool = False
    has_calls: bool = False
    is_pinned: bool = False
    stays: bool = False

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

    @property
    def was_shortened(self) -> bool:
        """Whether it came shortened, as its metadata says; what its text says of that is only text."""
        return bool(self.message.response_metadata.get(SHORTENED))

    @property
    def is_appendix(self) -> bool:
        """Whether an earlier call added this message."""
        return str(self.message.id or "").startswith(_APPENDIX_ID)

    def note(self, recall: str, count: Count, why: str) -> Rendering:
        """Return the shortest rendering of a result: the note alone, or a text that is shorter."""
        text = note(self.text_size, self.name, recall)
        size = count(text)
        if size >= self.text_size:
            return Rendering(self.text, self.text_size, why)
        return Rendering(text, size, why, is_note=True)


@dataclass(frozen=True)
class Plan:
    """The fates of messages by their places; a message without an entry is shown whole.

    ``left_out`` says why a message goes, ``appendices`` follow the messages of these keys, and
    ``appendix`` is the newest of them.
    """

    left_out: Mapping[int, str] = field(default_factory=dict)
    renderings: Mapping[int, Rendering] = field(default_factory=dict)
    appendices: Mapping[str, str] = field(default_factory=dict)
    appendix: str = ""
    is_cut: bool = False

    def size_of(self, slot: Slot) -> int:
        """Return the tokens of a message's visible part."""
        if slot.place in self.left_out:
            return 0
        return slot.bare_size + self.text_size_of(slot) if slot.is_result else slot.size

    def text_size_of(self, slot: Slot) -> int:
        """Return the tokens of a result's visible text."""
        rendering = self.renderings.get(slot.place)
        return slot.text_size if rendering is None else rendering.size

    def text_of(self, slot: Slot) -> str:
        """Return a result's visible text, with the appendix that follows it."""
        rendering = self.renderings.get(slot.place)
        text = slot.text if rendering is None else rendering.text
        appendix = self.appendices.get(slot.key, "")
        return f"{text}\n\n{appendix}" if appendix else text

    def showing(self, slot: Slot, rendering: Rendering) -> "Plan":
        """Return the plan with another rendering of a result."""
        return replace(self, renderings={**self.renderings, slot.place: rendering})

    def appending(self, slot: Slot, appendix: str) -> "Plan":
        """Return the plan with an appendix after a message."""
        appendices = {**self.appendices, slot.key: appendix}
        return replace(self, appendices=appendices, appendix=appendix)


@dataclass(frozen=True)
class History:
    """The messages before a call; ``fixed`` are the tokens of tools and system message.

    ``slots`` are the messages that providers take; ``orphans`` are the places of the others: calls
    without their results, and results without their call. ``recall`` is the name of the recall tool,
    "" where there is none.
    """

    messages: Sequence[BaseMessage]
    slots: Sequence[Slot]
    rounds: Sequence[Sequence[Slot]]
    orphans: Sequence[int]
    fixed: int
    count: Count
    recall: str = ""
    state: Vector | None = None

    @classmethod
    def of(
        cls,
        messages: Sequence[BaseMessage],
        previous: Decisions,
        fixed: int,
        count: Count,
        settings: HistorySettings,
    ) -> "History":
        """Return the history of ``messages``, of which earlier calls decided ``previous``."""
        repair = repaired(messages)
        names = tools_called(repair.messages)
        rounds: list[list[Slot]] = []
        every = rounds_of(repair.messages)
        for round_ in every:
            slots: list[Slot] = []
            places = repair.places[round_.start : round_.end]
            members = repair.messages[round_.start : round_.end]
            for message, place in zip(members, places, strict=True):
                key, whole = key_of(messages[place], place), text_of(message)
                is_result = isinstance(message, ToolMessage)
                check, frozen = previous.frozen.get(key, (None, None))
                if not is_result or check != digest(whole):
                    frozen = None
                slot = Slot(
                    place,
                    key,
                    name_of(messages[place], place),
                    message,
                    tokens_of(message, count),
                    bounded(whole),
                    count(whole) if is_result else 0,
                    tool_of(message, names),
                    frozen,
                    is_result,
                    is_result and frozen is None and round_ is every[-1],
                    bool(calls_of(message)) or is_result,
                    key in previous.restored or settings.is_pinned(messages[place]),
                )
                slots.append(slot)
            stays = any(slot.is_pinned for slot in slots)
            rounds.append([replace(slot, stays=stays) for slot in slots])
        orphans = sorted(set(range(len(messages))) - set(repair.places))
        slots = [slot for round_slots in rounds for slot in round_slots]
        return cls(messages, slots, rounds, orphans, fixed, count)

    def size(self, plan: Plan) -> int:
        """Return the tokens of the whole prompt under ``plan``."""
        visible = sum(plan.size_of(slot) + self._added(plan, slot) for slot in self.slots)
        left_out = note_of(self, plan)
        return self.fixed + visible + (tokens_of(left_out, self.count) if left_out else 0)

    def _added(self, plan: Plan, slot: Slot) -> int:
        """Return the tokens of the appendix after a message."""
        if slot.key not in plan.appendices or slot.place in plan.left_out:
            return 0
        if slot.is_result:
            return self.count(plan.text_of(slot)) - plan.text_size_of(slot)
        return MESSAGE_TOKENS + self.count(plan.appendices[slot.key])

    def left_out_within(self, room: int) -> dict[int, str]:
        """Return the places of messages to leave out, and why: the others fit ``room`` tokens.

        Each result counts as its note. Rounds of calls go first, the oldest first; then turns. The
        last round, pinned messages and :meth:`_requests` never go.
        """
        requests = self._requests()
        needed = self.fixed + sum(slot.least_size for slot in self.slots)
        if needed > room:
            needed += _LEFT_OUT_TOKENS
        why: dict[int, str] = {}
        for slots in sorted(self.rounds[:-1], key=lambda slots: not slots[0].has_calls):
            if needed <= room:
                break
            if not _stays(slots[0], requests):
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


def _stays(slot: Slot, requests: Collection[str]) -> bool:
    """Say whether a message is never left out."""
    return slot.message.type == "system" or slot.stays or slot.key in {NOTE_ID, *requests}


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
        appendices=plan.appendices,
        left_out=tuple(slots[place].key for place in plan.left_out),
        cuts=previous.cuts + plan.is_cut,
    )
    rows = tuple(_rows(history, plan))
    lost = sum(tokens_of(history.messages[place], history.count) for place in history.orphans)
    audit = Audit(
        settings.kind,
        settings.budget,
        history.fixed + sum(slot.size for slot in history.slots) + lost,
        history.size(plan),
        history.fixed,
        plan.is_cut,
        plan.appendix,
        whole=len(history.messages) - len(rows),
        rows=rows,
    )
    return PreparedCall(tuple(_messages_of(history, plan)), decisions, audit)


def _messages_of(history: History, plan: Plan) -> Iterator[BaseMessage]:
    note_of_left_out = note_of(history, plan)
    for slot in history.slots:
        appendix = plan.appendices.get(slot.key, "")
        if slot.place in plan.left_out:
            if note_of_left_out is not None:
                yield note_of_left_out
                note_of_left_out = None
            continue
        if slot.is_result and (appendix or slot.place in plan.renderings):
            shortened = with_text(slot.message, plan.text_of(slot))
            if slot.place in plan.renderings:
                shortened.response_metadata = {**shortened.response_metadata, SHORTENED: True}
            yield shortened
            continue
        yield slot.message
        if appendix:
            yield HumanMessage(appendix, id=f"{_APPENDIX_ID}{slot.name}")


def _rows(history: History, plan: Plan) -> Iterator[Row]:
    """Return a row for each message that is not shown whole."""
    for slot in history.slots:
        row = Row(slot.key, slot.name, slot.message.type, "left out", slot.size, 0, "")
        if slot.place in plan.left_out:
            yield replace(row, why=plan.left_out[slot.place])
        elif (rendering := plan.renderings.get(slot.place)) is not None:
            fate: Fate = "note" if rendering.is_note else "shortened"
            size = plan.size_of(slot)
            yield replace(row, fate=fate, tokens_after=size, why=rendering.why)
    for place in history.orphans:
        message = history.messages[place]
        key, name = key_of(message, place), name_of(message, place)
        why = "a call without its result, or a result without its call"
        size = tokens_of(message, history.count)
        yield Row(key, name, message.type, "orphan", size, 0, why)
