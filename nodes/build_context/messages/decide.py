"""What one model call reads of a history: decided once, then shown byte for byte until a cut.

A result is decided on when it is new (one that is larger than its share is shortened at once, before it
was ever paid for) and when the prompt passes the budget, the high watermark: then everything is decided
anew, down to the low one. In between nothing that was shown changes, so that a provider's prefix cache
holds. Which parts of results stay is asked of an ordinary context builder.

What must hold (property-tested): a call and its results stand or go together; what people said last and
calls that wait for results stay whole; ids and order never change; the budget holds, or the audit says by
how much it does not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from envs.messages.history import (
    MESSAGE_TOKENS,
    Count,
    calls_of,
    calls_text,
    digest,
    events_of,
    instruction_of,
    key_of,
    name_of,
    repaired,
    rounds_of,
    text_of,
    tokens_of,
    with_text,
)
from envs.messages.view import MessagesView
from envs.protocols import Observation
from nodes.build_context.messages.audit import Audit, Row
from nodes.build_context.messages.render import Rendering, bare, is_shortened, rendered
from nodes.build_context.messages.tail import tail_for
from nodes.protocols import ContextBuilder, ContextRequest, Embedder, Piece, Vector
from nodes.retrieval.history import HistorySource
from stores.tokens import count_tokens

_NOTE_TOKENS = 14
_VIEW = MessagesView()


@dataclass(frozen=True)
class Settings:
    """How a history is shown.

    ``budget`` (tokens, system message and tools included) is the high watermark, ``low`` the share of
    it that one cut goes down to. ``fresh`` is what a new result may have at most. ``tail`` is what
    may be brought back of earlier results after the newest. ``newest`` keeps only so many of the last
    results in a cut. ``with_recall`` says whether notes name the way back.
    """

    kind: str
    budget: int
    low: float = 0.5
    fresh: int = 1000
    tail: int = 0
    newest: int | None = None
    with_recall: bool = True


@dataclass(frozen=True)
class Decisions:
    """What was decided so far, as plain values for a checkpoint; bounded by the budget.

    ``frozen`` holds for results that are not shown whole the checksum of the original and the text
    shown, ``tails`` the text after a message. Rounds before the message ``floor`` are left out.
    ``recurrent`` is the state of an updater that has read ``read`` messages.
    """

    frozen: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    tails: Mapping[str, str] = field(default_factory=dict)
    floor: str = ""
    cuts: int = 0
    recurrent: Any = None
    read: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the form that is held in graph state."""
        return {
            "frozen": {key: [check, text] for key, (check, text) in self.frozen.items()},
            "tails": dict(self.tails), "floor": self.floor, "cuts": self.cuts,
            "recurrent": self.recurrent, "read": self.read,
        }  # fmt: skip

    @classmethod
    def of(cls, plain: Mapping[str, Any] | None) -> "Decisions":
        """Read :meth:`plain` back; None is no decisions."""
        if not plain:
            return cls()
        frozen = {key: (int(row[0]), str(row[1])) for key, row in plain["frozen"].items()}
        return cls(
            frozen, plain["tails"], plain["floor"], plain["cuts"], plain["recurrent"], plain["read"]
        )


@dataclass(frozen=True)
class Shown:
    """The messages of one call, the decisions to keep for the next, and the audit."""

    messages: tuple[BaseMessage, ...]
    decisions: Decisions | None
    audit: Audit


@dataclass(eq=False)
class _Slot:
    """One message on its way into the prompt."""

    place: int
    key: str
    name: str
    message: BaseMessage
    size: int  # tokens of the original
    text: str
    text_size: int  # tokens of the text alone
    turn: int
    role: str
    is_result: bool = False
    is_new: bool = False  # a result that no call has shown yet
    rendering: Rendering | None = None  # None: whole
    is_out: bool = False
    why: str = ""

    @property
    def shown_size(self) -> int:
        if self.is_out:
            return 0
        return self.size if self.rendering is None else self.bare_size + self.rendering.size

    @property
    def bare_size(self) -> int:
        return self.size - self.text_size


class Decider:
    """Decides with one builder; pure: the same history and decisions give the same prompt."""

    def __init__(
        self,
        settings: Settings,
        builder: ContextBuilder,
        embedder: Callable[[], Embedder] | None = None,
        count: Count = count_tokens,
        size_of: Callable[[BaseMessage], int] | None = None,
        arrival: ContextBuilder | None = None,
    ) -> None:
        self.settings, self._builder, self._embedder = settings, builder, embedder
        self._arrival = arrival or builder
        self._count = count
        self._size_of = size_of or (lambda message: tokens_of(message, count))

    def __call__(
        self,
        messages: Sequence[BaseMessage],
        decisions: Decisions,
        fixed: int = 0,
        state: Vector | None = None,
    ) -> Shown:
        """Return what a call reads of ``messages``, beside ``fixed`` tokens of tools and system."""
        settings = self.settings
        if quick := self._untouched(messages, decisions, fixed):
            return quick
        repair = repaired(messages)
        slots = self._slots(messages, repair.messages, repair.places)
        floor = self._floor(slots, decisions.floor)
        self._freeze(slots, decisions)
        self._leave_out(slots, floor)
        self._shorten_new(slots, messages, state)
        tails = {
            key: text for key, text in decisions.tails.items() if any(s.key == key for s in slots)
        }
        is_cut = False
        if self._total(slots, tails, fixed) > settings.budget:
            is_cut = True
            tails = {}
            floor = self._cut(slots, messages, fixed, state)
        tail = ""
        if settings.tail and slots:
            room = min(settings.tail, settings.budget - self._total(slots, tails, fixed))
            anchor = slots[-1].key
            may_follow = slots[-1].message.type in ("human", "tool")  # nothing waits for an answer
            if may_follow and anchor not in tails and not _is_tail(slots[-1].message):
                tail = self._tail(slots, room - MESSAGE_TOKENS, tails)
                if tail:
                    tails = {**tails, anchor: tail}
        shown = self._shown(slots, tails)
        rows = (
            *_rows(slots),
            *_orphan_rows(messages, repair.places, repair.orphans, self._size_of),
        )
        before = sum(s.size for s in slots) + sum(
            r.tokens_before for r in rows if r.fate == "orphan"
        )
        after = sum(slot.shown_size for slot in slots)
        after += self._tails_size(slots, tails)
        kept = replace(
            decisions,
            frozen={
                s.key: (digest(s.text), s.rendering.text)
                for s in slots
                if s.rendering is not None and not s.is_out
            },
            tails=tails,
            floor=floor,
            cuts=decisions.cuts + is_cut,
        )
        audit = Audit(
            settings.kind, settings.budget, fixed + before, fixed + after, fixed,
            max(fixed + after - settings.budget, 0), is_cut, tail,
            whole=len(messages) - len(rows), rows=rows,
        )  # fmt: skip
        return Shown(shown, kept, audit)

    def _untouched(
        self, messages: Sequence[BaseMessage], decisions: Decisions, fixed: int
    ) -> Shown | None:
        """Return the messages as they are where that is clear at a glance, else None."""
        if decisions.frozen or decisions.tails or decisions.floor:
            return None
        tokens = fixed + sum(self._size_of(message) for message in messages)
        if tokens > self.settings.budget:
            return None
        waiting: set[str] = set()
        for message in messages:
            if isinstance(message, ToolMessage):
                if message.tool_call_id not in waiting:
                    return None
                waiting.discard(message.tool_call_id)
            elif waiting:
                return None
            elif isinstance(message, AIMessage) and message.tool_calls:
                waiting.update(calls_of(message))
        for message in reversed(messages):
            if not isinstance(message, ToolMessage):
                break
            if self._size_of(message) > self.settings.fresh:
                return None
        audit = Audit(
            self.settings.kind, self.settings.budget, tokens, tokens, fixed, whole=len(messages)
        )
        return Shown(tuple(messages), decisions, audit)

    # What stands already --------------------------------------------------------------------------

    def _slots(
        self, messages: Sequence[BaseMessage], shown: Sequence[BaseMessage], places: Sequence[int]
    ) -> list[_Slot]:
        slots: list[_Slot] = []
        for number, round_ in enumerate(rounds := rounds_of(shown)):
            for i in range(round_.start, round_.end):
                message = shown[i]
                is_result = isinstance(message, ToolMessage)
                text = text_of(message)
                slots.append(
                    _Slot(
                        places[i], key_of(messages[places[i]], places[i]),
                        name_of(messages[places[i]], places[i]), message,
                        self._size_of(message), text, self._count(text) if is_result else 0,
                        round_.turn, round_.role, is_result,
                        is_result and number == len(rounds) - 1,
                    )
                )  # fmt: skip
        return slots

    def _freeze(self, slots: Sequence[_Slot], decisions: Decisions) -> None:
        for slot in slots:
            stored = decisions.frozen.get(slot.key)
            if stored is not None and slot.is_result and stored[0] == digest(slot.text):
                slot.rendering = Rendering(stored[1], self._count(stored[1]), 1, 1)
                slot.why = "as before"
                slot.is_new = False

    @staticmethod
    def _floor(slots: Sequence[_Slot], floor: str) -> str:
        return floor if any(slot.key == floor for slot in slots) else ""

    @staticmethod
    def _leave_out(slots: Sequence[_Slot], floor: str, why: str = "before the floor") -> None:
        """Leave out what is before ``floor``: rounds of its turn, earlier turns whole; never system."""
        at = next((i for i, slot in enumerate(slots) if slot.key == floor), 0)
        turn = slots[at].turn if slots else 0
        for slot in slots[:at]:
            stays = slot.role == "system" or (slot.role == "human" and slot.turn == turn)
            if not stays:
                slot.is_out, slot.rendering, slot.why = True, None, why

    def _total(self, slots: Sequence[_Slot], tails: Mapping[str, str], fixed: int) -> int:
        return fixed + sum(slot.shown_size for slot in slots) + self._tails_size(slots, tails)

    def _tails_size(self, slots: Sequence[_Slot], tails: Mapping[str, str]) -> int:
        size = 0
        for slot in slots if tails else ():
            if (tail := tails.get(slot.key)) is None or slot.is_out:
                continue
            if slot.is_result:
                size += self._count(_joined(slot, tail)) - self._text_size(slot)
            else:
                size += MESSAGE_TOKENS + self._count(tail)
        return size

    # What is decided now --------------------------------------------------------------------------

    def _shorten_new(
        self, slots: Sequence[_Slot], messages: Sequence[BaseMessage], state: Vector | None
    ) -> None:
        """Shorten new results that are larger than their share, by what they were asked for."""
        for slot in slots:
            if slot.is_new and not slot.is_out and not is_shortened(slot.text):
                if slot.text_size > self.settings.fresh and not _is_recalled(slot.message):
                    self._shorten_one(slot, messages, self.settings.fresh, state)
                    slot.why = "larger than a new result may be"

    def _shorten_one(
        self, slot: _Slot, messages: Sequence[BaseMessage], room: int, state: Vector | None
    ) -> None:
        """Fit one result into ``room`` tokens, down to its note."""
        budget = room - _NOTE_TOKENS
        for _ in range(3):
            if budget <= 0:
                break
            found = self._select(
                [slot], messages, budget, state, self._arrival, messages[: slot.place]
            )
            slot.rendering = found[slot.key]
            over = slot.rendering.size - room
            if over <= 0:
                return
            budget -= over + 8
        slot.rendering = self._bare(slot)

    def _cut(
        self, slots: list[_Slot], messages: Sequence[BaseMessage], fixed: int, state: Vector | None
    ) -> str:
        """Decide everything anew, down to the low watermark; returns the new floor."""
        settings = self.settings
        low = round(settings.budget * settings.low)
        for slot in slots:
            if slot.is_out:
                slot.is_out, slot.rendering = False, None
        floor = self._floor_for(slots, max(low * 3 // 5, low - fixed // 2), fixed)
        self._leave_out(slots, floor, "the oldest rounds, which no longer fit")
        old = [s for s in slots if s.is_result and not s.is_out and not s.is_new]
        for slot in old:
            slot.rendering = None
        held = fixed + sum(s.shown_size for s in slots) - sum(s.text_size for s in old)
        chosen = old[-settings.newest :] if settings.newest is not None else old
        for slot in old:
            slot.rendering = self._bare(slot)
            slot.why = "older than the newest results"
        room = low - held - _NOTE_TOKENS * len(old)
        if chosen and room > 0:
            found = self._select(chosen, messages, room, state, self._builder, messages)
            for slot in chosen:
                slot.rendering = found[slot.key]
                slot.why = f"by {settings.kind}"
        for slot in old:
            if slot.rendering is not None and slot.rendering.text == slot.text:
                slot.rendering, slot.why = None, ""
        self._hold(slots, messages, fixed, state)
        return floor

    def _hold(
        self,
        slots: Sequence[_Slot],
        messages: Sequence[BaseMessage],
        fixed: int,
        state: Vector | None,
    ) -> None:
        """Bring the prompt under the budget by what may still be shortened: old results, then new."""
        for is_new in (False, True):
            results = [s for s in slots if s.is_result and not s.is_out and s.is_new == is_new]
            for slot in results if not is_new else sorted(results, key=lambda s: -s.shown_size):
                over = self._total(slots, {}, fixed) - self.settings.budget
                if over <= 0:
                    return
                if is_new:
                    self._shorten_one(slot, messages, self._text_size(slot) - over, state)
                else:
                    slot.rendering = self._bare(slot)
                slot.why = "to hold the budget"

    @staticmethod
    def _text_size(slot: _Slot) -> int:
        return slot.text_size if slot.rendering is None else slot.rendering.size

    def _bare(self, slot: _Slot) -> Rendering:
        return bare(slot.name, slot.text, slot.text_size, self.settings.with_recall, self._count)

    def _floor_for(self, slots: Sequence[_Slot], room: int, fixed: int) -> str:
        """Return the first message to show so that all but results' texts fits ``room`` tokens.

        Rounds of the last turn go only when earlier turns are gone; its last round never goes.
        """

        def least(slot: _Slot) -> int:
            return (
                slot.bare_size + min(slot.text_size, _NOTE_TOKENS) if slot.is_result else slot.size
            )

        needed = fixed + sum(least(slot) for slot in slots)
        if needed <= room or not slots:
            return ""
        last_turn = slots[-1].turn
        starts = [i for i, s in enumerate(slots) if not s.is_result]
        last_start = starts[-1]
        stands = [s.role == "system" or (s.role == "human" and s.turn == last_turn) for s in slots]
        spared = 0
        for start, end in zip(starts, [*starts[1:], len(slots)], strict=True):
            if needed - spared <= room and _may_begin(slots, start, last_turn):
                return slots[start].key
            if start == last_start:
                return slots[start].key if start else ""
            spared += sum(least(slots[i]) for i in range(start, end) if not stands[i])
        return ""

    def _select(
        self,
        slots: Sequence[_Slot],
        messages: Sequence[BaseMessage],
        budget: int,
        state: Vector | None,
        builder: ContextBuilder,
        before: Sequence[BaseMessage],
    ) -> dict[str, Rendering]:
        """Ask ``builder`` which parts of these results stay within ``budget`` tokens."""
        source = HistorySource([(s.key, s.text) for s in slots], self._embedder)
        pieces = self._pieces(source, messages, budget, state, builder, before)
        return {
            slot.key: rendered(
                slot.name,
                slot.text,
                source.by_result[slot.key],
                pieces,
                self.settings.with_recall,
                self._count,
            )  # fmt: skip
            for slot in slots
        }

    def _pieces(
        self,
        source: HistorySource,
        messages: Sequence[BaseMessage],
        budget: int,
        state: Vector | None,
        builder: ContextBuilder,
        before: Sequence[BaseMessage],
    ) -> dict[str, Piece]:
        asked = instruction_of(messages)
        lead = self._count(f"Instruction: {' '.join(asked.split())}\n")
        calls = tuple(
            dict.fromkeys(
                call["name"]
                for message in before[-8:]
                if isinstance(message, AIMessage)
                for call in message.tool_calls
            )
        )
        request = ContextRequest(
            instruction=asked,
            observation=Observation("".join(c.text for c in source.all()), calls),
            source=source,
            events=tuple(e for e in events_of(before, max(len(before) - 6, 0)) if e.kind == "ACT"),
            budget=budget + lead,  # the frame's own line, which is not shown here
            state=state,
            view=_VIEW,
        )
        return {piece.id: piece for piece in builder(request).pieces}

    def _tail(self, slots: Sequence[_Slot], room: int, tails: Mapping[str, str]) -> str:
        hidden = [s for s in slots if s.is_result and (s.is_out or s.rendering is not None)]
        last = max((slot.place for slot in slots if not slot.is_result), default=0)
        query = [s for s in slots if s.place >= last]
        calls = _calls(slots)
        return tail_for(
            [(s.key, s.name, calls.get(s.message.tool_call_id, "result"), s.text,  # type: ignore[attr-defined]
              "" if s.rendering is None else s.rendering.text)
             for s in hidden if not s.is_new],
            " ".join([*(s.text + " " + calls_text(s.message) for s in query)]),
            " ".join(tails.values()), room,
        )  # fmt: skip

    # What comes out -------------------------------------------------------------------------------

    @staticmethod
    def _shown(slots: Sequence[_Slot], tails: Mapping[str, str]) -> tuple[BaseMessage, ...]:
        shown: list[BaseMessage] = []
        for slot in slots:
            tail = tails.get(slot.key, "")
            if slot.is_out:
                continue
            message = slot.message
            if slot.is_result and tail:
                message = with_text(message, _joined(slot, tail))
            elif slot.rendering is not None:
                message = with_text(message, slot.rendering.text)
            shown.append(message)
            if tail and not slot.is_result:
                shown.append(HumanMessage(tail, id=f"{_TAIL_ID}{slot.name}"))
        return tuple(shown)


_TAIL_ID = "stategate-tail-"


def _joined(slot: _Slot, tail: str) -> str:
    text = slot.text if slot.rendering is None else slot.rendering.text
    return f"{text}\n\n{tail}"


def _is_tail(message: BaseMessage) -> bool:
    return str(message.id or "").startswith(_TAIL_ID)


def _is_recalled(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage) and message.name == "recall"


def _may_begin(slots: Sequence[_Slot], start: int, last_turn: int) -> bool:
    """Say whether the shown messages may begin at ``start``: with a person, or within the last turn."""
    return slots[start].role == "human" or slots[start].turn == last_turn


def _calls(slots: Sequence[_Slot]) -> dict[str, str]:
    """Return each call, by its id, in short."""
    return {
        str(call["id"]): f"{call['name']}({', '.join(str(v) for v in call['args'].values())[:60]})"
        for slot in slots
        if isinstance(slot.message, AIMessage)
        for call in slot.message.tool_calls
    }


def _rows(slots: Sequence[_Slot]) -> list[Row]:
    """Return a row for each message that is not shown whole."""
    rows: list[Row] = []
    for slot in slots:
        rendering = slot.rendering
        if rendering is None and not slot.is_out:
            continue
        fate: Any = "left out"
        parts, parts_shown, score = 1, 0, None
        if rendering is not None:
            fate = "shortened" if rendering.shown else "note"
            parts, parts_shown, score = rendering.parts, rendering.shown, rendering.score
        label = slot.text[:80] or calls_text(slot.message)[:80]
        rows.append(
            Row(
                slot.key, slot.name, slot.message.type, " ".join(label.split()), fate,
                slot.size, slot.shown_size, parts, parts_shown, score, slot.why,
            )
        )  # fmt: skip
    return rows


def _orphan_rows(
    messages: Sequence[BaseMessage],
    places: Sequence[int],
    orphans: Sequence[str],
    size_of: Callable[[BaseMessage], int],
) -> list[Row]:
    shown = {*places}
    return [
        Row(
            key_of(message, i), name_of(message, i), message.type,
            " ".join(text_of(message)[:80].split()), "orphan", size_of(message), 0, 1, 0,
            why="a call without its result, or a result without its call",
        )
        for i, message in enumerate(messages)
        if orphans and i not in shown
    ]  # fmt: skip
