"""A history as slots, and a plan: what becomes of each message in one call.

A plan is a value: functions take one and return the next. ``apply`` turns it into the messages of the
call, the decisions for the next call, and the audit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from stategate.envs.messages.history import (
    MESSAGE_TOKENS,
    Count,
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
    Row,
    Shown,
)
from stategate.nodes.build_context.messages.parts import Rendering, note
from stategate.nodes.protocols import Vector

#: In a message's metadata: this result was shortened before it was kept.
SHORTENED = "stategate_shortened"
#: Tokens that the note of a shortened result may have.
NOTE_TOKENS = 14
_APPENDIX_ID = "stategate-appendix-"


@dataclass(frozen=True)
class Slot:
    """One message. ``size`` counts all of it, ``text_size`` a result's text alone.

    ``turn`` counts people's messages, ``tool`` gave this result, ``frozen`` is what earlier calls
    showed of it. A result ``is_new`` that no call has shown yet.
    """

    place: int
    key: str
    name: str
    message: BaseMessage
    size: int
    text: str
    text_size: int
    turn: int
    role: str
    tool: str = ""
    frozen: str | None = None
    is_result: bool = False
    is_new: bool = False

    @property
    def bare_size(self) -> int:
        """Tokens beside the text: role, ids, images."""
        return self.size - self.text_size

    @property
    def least_size(self) -> int:
        """Tokens that the message costs where nothing but its note is shown of a result."""
        return self.bare_size + min(self.text_size, NOTE_TOKENS) if self.is_result else self.size

    @property
    def was_shortened(self) -> bool:
        """Whether ``graph.tool_results`` shortened it; what its text says of that is only text."""
        return bool(self.message.response_metadata.get(SHORTENED))

    @property
    def is_appendix(self) -> bool:
        """Whether an earlier call added this message."""
        return str(self.message.id or "").startswith(_APPENDIX_ID)

    def note(self, settings: HistorySettings, count: Count, why: str) -> Rendering:
        """Return the shortest rendering of a result: the note alone, or a text that is shorter."""
        text = note(self.text_size, self.name, settings.recall)
        size = count(text)
        if size >= self.text_size:
            return Rendering(self.text, self.text_size, why)
        return Rendering(text, size, why, is_note=True)


@dataclass(frozen=True)
class Plan:
    """What becomes of messages, by their places: one that is not named is shown whole.

    ``left_out`` says why a message goes, ``appendices`` follow the messages of these keys, and
    ``appendix`` is the newest of them. Rounds before ``window_start`` are left out.
    """

    left_out: Mapping[int, str] = field(default_factory=dict)
    renderings: Mapping[int, Rendering] = field(default_factory=dict)
    appendices: Mapping[str, str] = field(default_factory=dict)
    appendix: str = ""
    window_start: str = ""
    is_cut: bool = False

    def size_of(self, slot: Slot) -> int:
        """Return the tokens of what is shown of a message."""
        if slot.place in self.left_out:
            return 0
        return slot.bare_size + self.text_size_of(slot) if slot.is_result else slot.size

    def text_size_of(self, slot: Slot) -> int:
        """Return the tokens of what is shown of a result's text."""
        rendering = self.renderings.get(slot.place)
        return slot.text_size if rendering is None else rendering.size

    def text_of(self, slot: Slot) -> str:
        """Return what is shown of a result's text, with the appendix that follows it."""
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
    """The messages before a call, beside ``fixed`` tokens of tools and system message.

    ``slots`` are those that providers take; ``orphans`` are the places of the others: calls without
    their results, and results without their call.
    """

    messages: Sequence[BaseMessage]
    slots: Sequence[Slot]
    orphans: Sequence[int]
    fixed: int
    count: Count
    state: Vector | None = None

    @classmethod
    def of(
        cls,
        messages: Sequence[BaseMessage],
        previous: Decisions,
        fixed: int,
        count: Count,
        state: Vector | None = None,
    ) -> "History":
        """Return the history of ``messages``, of which earlier calls decided ``previous``."""
        repair = repaired(messages)
        names, rounds = tools_called(repair.messages), rounds_of(repair.messages)
        slots: list[Slot] = []
        for round_ in rounds:
            for i in range(round_.start, round_.end):
                message, place = repair.messages[i], repair.places[i]
                key, text = key_of(messages[place], place), text_of(message)
                is_result = isinstance(message, ToolMessage)
                check, frozen = previous.frozen.get(key, (None, None))
                if not is_result or check != digest(text):
                    frozen = None
                slot = Slot(
                    place,
                    key,
                    name_of(messages[place], place),
                    message,
                    tokens_of(message, count),
                    text,
                    count(text) if is_result else 0,
                    round_.turn,
                    round_.role,
                    tool_of(message, names),
                    frozen,
                    is_result,
                    is_result and frozen is None and round_ is rounds[-1],
                )
                slots.append(slot)
        orphans = sorted(set(range(len(messages))) - set(repair.places))
        return cls(messages, slots, orphans, fixed, count, state)

    def size(self, plan: Plan) -> int:
        """Return the tokens of the whole prompt under ``plan``."""
        return self.fixed + sum(plan.size_of(slot) + self._added(plan, slot) for slot in self.slots)

    def _added(self, plan: Plan, slot: Slot) -> int:
        """Return the tokens of the appendix after a message."""
        if slot.key not in plan.appendices or slot.place in plan.left_out:
            return 0
        if slot.is_result:
            return self.count(plan.text_of(slot)) - plan.text_size_of(slot)
        return MESSAGE_TOKENS + self.count(plan.appendices[slot.key])

    def before(self, start: str, why: str) -> dict[int, str]:
        """Return what goes before ``start``: rounds of its turn, earlier turns whole; never system."""
        at = next((i for i, slot in enumerate(self.slots) if slot.key == start), 0)
        turn = self.slots[at].turn if self.slots else 0
        return {slot.place: why for slot in self.slots[:at] if not _stays(slot, turn)}

    def start_within(self, room: int) -> str:
        """Return the first message to show so that all but results' texts fits ``room`` tokens.

        Rounds of the last turn go only when earlier turns are gone; its last round never goes.
        """
        slots = self.slots
        needed = self.fixed + sum(slot.least_size for slot in slots)
        if needed <= room or not slots:
            return ""
        last_turn = slots[-1].turn
        starts = [i for i, slot in enumerate(slots) if not slot.is_result]
        for start, end in zip(starts, [*starts[1:], len(slots)], strict=True):
            first = slots[start]
            # The shown messages begin with a person, or within the last turn.
            if needed <= room and (first.role == "human" or first.turn == last_turn):
                return first.key
            if start == starts[-1]:
                return first.key if start else ""
            gone = (slot for slot in slots[start:end] if not _stays(slot, last_turn))
            needed -= sum(slot.least_size for slot in gone)
        return ""


def _stays(slot: Slot, turn: int) -> bool:
    """Say whether a message stays when what is before it in its turn goes."""
    return slot.role == "system" or (slot.role == "human" and slot.turn == turn)


def apply(history: History, plan: Plan, previous: Decisions, settings: HistorySettings) -> Shown:
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
        window_start=plan.window_start,
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
    return Shown(tuple(_shown(history, plan)), decisions, audit)


def _shown(history: History, plan: Plan) -> Iterator[BaseMessage]:
    for slot in history.slots:
        appendix = plan.appendices.get(slot.key, "")
        if slot.place in plan.left_out:
            continue
        if slot.is_result and (appendix or slot.place in plan.renderings):
            yield with_text(slot.message, plan.text_of(slot))
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
