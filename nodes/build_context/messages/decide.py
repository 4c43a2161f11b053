"""What one model call reads of a history: decided once, then shown byte for byte until a cut.

A result is decided on when it is new (one that is larger than its share is shortened at once, before it
was ever paid for) and when the prompt passes the budget, the high watermark: then everything is decided
anew, down to the low one. In between nothing that was shown changes, so that a provider's prefix cache
holds. Which parts of results stay is asked of an ordinary context builder.

What must hold (property-tested): a call and its results stand or go together; what people said last
and calls that wait for results stay whole; ids and order never change; the budget holds, or the audit
says by how much it does not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stategate.envs.messages.history import (
    MESSAGE_TOKENS,
    Count,
    calls_of,
    calls_text,
    digest,
    events_of,
    instruction_of,
    repaired,
    tokens_of,
)
from stategate.envs.messages.view import MessagesView
from stategate.envs.protocols import Observation
from stategate.nodes.build_context.messages.appendix import Hidden, appendix_for
from stategate.nodes.build_context.messages.audit import Audit
from stategate.nodes.build_context.messages.decisions import Decisions, Limits, Shown
from stategate.nodes.build_context.messages.render import Rendering, bare, rendered
from stategate.nodes.build_context.messages.slots import (
    Slot,
    calls_in,
    is_appendix,
    joined,
    orphan_rows,
    rows_of,
    shown_messages,
    slots_of,
    was_shortened,
)
from stategate.nodes.protocols import ContextBuilder, ContextRequest, Embedder, Vector, WorldProfile
from stategate.nodes.retrieval.history import HistorySource
from stategate.stores.tokens import count_tokens, truncate

#: Kinds of pieces that are no part of what is in place: they go after everything else.
APPENDED_KINDS = ("passage", "memory", "fact", "entity", "relation", "experience")
_NOTE_TOKENS = 14
_QUERY_TOKENS = 120
_PROFILE = WorldProfile(MessagesView())


class Decider:
    """Decides with one builder; pure: the same history and decisions give the same prompt."""

    def __init__(
        self,
        limits: Limits,
        builder: ContextBuilder,
        embedder: Callable[[], Embedder] | None = None,
        count: Count = count_tokens,
        size_of: Callable[[BaseMessage], int] | None = None,
        advise: ContextBuilder | None = None,
    ) -> None:
        self.limits, self._builder, self._embedder = limits, builder, embedder
        self._advise = advise
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
        if quick := self._untouched(messages, decisions, fixed):
            return quick
        repair = repaired(messages)
        slots = slots_of(messages, repair, self._size_of, self._count)
        start = self._start(slots, decisions.window_start)
        self._freeze(slots, decisions)
        self._leave_out(slots, start)
        self._shorten_new(slots, messages, state)
        keys = {slot.key for slot in slots}
        appendices = {key: text for key, text in decisions.appendices.items() if key in keys}
        is_cut = self._total(slots, appendices, fixed) > self.limits.budget
        if is_cut:
            appendices = {}
            start = self._cut(slots, messages, fixed, state)
        appendix = self._new_appendix(slots, messages, fixed, state, appendices)
        if appendix:
            appendices = {**appendices, slots[-1].key: appendix}
        frozen = {
            s.key: (digest(s.text), s.rendering.text)
            for s in slots
            if s.rendering is not None and not s.is_out
        }
        next_decisions = replace(
            decisions,
            frozen=frozen,
            appendices=appendices,
            window_start=start,
            cuts=decisions.cuts + is_cut,
        )
        orphans = orphan_rows(messages, repair.places, repair.orphans, self._size_of)
        rows = (*rows_of(slots), *orphans)
        before = sum(s.size for s in slots) + sum(row.tokens_before for row in orphans)
        after = self._total(slots, appendices, fixed)
        audit = Audit(
            self.limits.kind,
            self.limits.budget,
            fixed + before,
            after,
            fixed,
            max(after - self.limits.budget, 0),
            is_cut,
            appendix,
            whole=len(messages) - len(rows),
            rows=rows,
        )
        return Shown(shown_messages(slots, appendices), next_decisions, audit)

    def _new_appendix(
        self,
        slots: Sequence[Slot],
        messages: Sequence[BaseMessage],
        fixed: int,
        state: Vector | None,
        appendices: Mapping[str, str],
    ) -> str:
        """Return the appendix after the last message, "" where none may or need follow it."""
        if not self.limits.appendix_tokens or not slots:
            return ""
        last = slots[-1]
        may_follow = last.message.type in ("human", "tool")  # nothing waits for an answer
        if not may_follow or last.key in appendices or is_appendix(last.message):
            return ""
        room = self.limits.budget - self._total(slots, appendices, fixed)
        room = min(self.limits.appendix_tokens, room) - MESSAGE_TOKENS
        return self._appendix(slots, messages, room, state, appendices)

    def _untouched(
        self, messages: Sequence[BaseMessage], decisions: Decisions, fixed: int
    ) -> Shown | None:
        """Return the messages as they are where that is clear at a glance, else None."""
        if decisions.frozen or decisions.appendices or decisions.window_start:
            return None
        tokens = fixed + sum(self._size_of(message) for message in messages)
        if tokens > self.limits.budget:
            return None
        waiting: set[str] = set()
        for message in messages:
            if isinstance(message, ToolMessage):
                if message.tool_call_id not in waiting:
                    return None
                waiting.discard(message.tool_call_id)
            elif waiting:
                return None
            elif isinstance(message, AIMessage):
                waiting.update(calls_of(message))
        for message in reversed(messages):
            if not isinstance(message, ToolMessage):
                break
            is_whole = message.name in self.limits.keep_whole
            if not is_whole and self._size_of(message) > self.limits.max_new_result:
                return None
        audit = Audit(
            self.limits.kind, self.limits.budget, tokens, tokens, fixed, whole=len(messages)
        )
        return Shown(tuple(messages), decisions, audit)

    # What stands already --------------------------------------------------------------------------

    def _freeze(self, slots: Sequence[Slot], decisions: Decisions) -> None:
        for slot in slots:
            stored = decisions.frozen.get(slot.key)
            if stored is not None and slot.is_result and stored[0] == digest(slot.text):
                slot.rendering = Rendering(stored[1], self._count(stored[1]), 1, 1)
                slot.why = "as before"
                slot.is_new = False

    @staticmethod
    def _start(slots: Sequence[Slot], start: str) -> str:
        return start if any(slot.key == start for slot in slots) else ""

    @staticmethod
    def _leave_out(slots: Sequence[Slot], start: str, why: str = "before the window") -> None:
        """Leave out what is before ``start``: rounds of its turn, earlier turns whole; never system."""
        at = next((i for i, slot in enumerate(slots) if slot.key == start), 0)
        turn = slots[at].turn if slots else 0
        for slot in slots[:at]:
            stays = slot.role == "system" or (slot.role == "human" and slot.turn == turn)
            if not stays:
                slot.is_out, slot.rendering, slot.why = True, None, why

    def _total(self, slots: Sequence[Slot], appendices: Mapping[str, str], fixed: int) -> int:
        return (
            fixed
            + sum(slot.shown_size for slot in slots)
            + self._appendices_size(slots, appendices)
        )

    def _appendices_size(self, slots: Sequence[Slot], appendices: Mapping[str, str]) -> int:
        size = 0
        for slot in slots if appendices else ():
            if (added := appendices.get(slot.key)) is None or slot.is_out:
                continue
            if slot.is_result:
                size += self._count(joined(slot, added)) - slot.shown_text_size
            else:
                size += MESSAGE_TOKENS + self._count(added)
        return size

    # What is decided now --------------------------------------------------------------------------

    def _shorten_new(
        self, slots: Sequence[Slot], messages: Sequence[BaseMessage], state: Vector | None
    ) -> None:
        """Shorten new results that are larger than their share, by what they were asked for."""
        for slot in slots:
            is_large = (
                slot.is_new and not slot.is_out and slot.text_size > self.limits.max_new_result
            )
            if (
                is_large
                and not was_shortened(slot.message)
                and slot.tool not in self.limits.keep_whole
            ):
                self._shorten_one(slot, messages, self.limits.max_new_result, state)
                slot.why = "larger than a new result may be"

    def _shorten_one(
        self, slot: Slot, messages: Sequence[BaseMessage], room: int, state: Vector | None
    ) -> None:
        """Fit one result into ``room`` tokens, down to its note."""
        budget = room - _NOTE_TOKENS
        for _ in range(3):
            if budget <= 0:
                break
            found = self._select([slot], messages, budget, state, messages[: slot.place])
            slot.rendering = found[slot.key]
            over = slot.rendering.size - room
            if over <= 0:
                return
            budget -= over + 8
        slot.rendering = self._bare(slot)

    def _cut(
        self, slots: list[Slot], messages: Sequence[BaseMessage], fixed: int, state: Vector | None
    ) -> str:
        """Decide everything anew, down to the low watermark; returns the new start of the window."""
        limits = self.limits
        low = round(limits.budget * limits.low_watermark)
        for slot in slots:
            if slot.is_out:
                slot.is_out, slot.rendering = False, None
        start = self._start_for(slots, max(low * 3 // 5, low - fixed // 2), fixed)
        self._leave_out(slots, start, "the oldest rounds, which no longer fit")
        old = [s for s in slots if s.is_result and not s.is_out and not s.is_new]
        for slot in old:
            slot.rendering = None
        held = fixed + sum(s.shown_size for s in slots) - sum(s.text_size for s in old)
        chosen = old[-limits.newest :] if limits.newest is not None else old
        for slot in old:
            slot.rendering = self._bare(slot)
            slot.why = "older than the newest results"
        room = low - held - _NOTE_TOKENS * len(old)
        if chosen and room > 0:
            found = self._select(chosen, messages, room, state, messages)
            for slot in chosen:
                slot.rendering = found[slot.key]
                slot.why = f"by {limits.kind}"
        for slot in old:
            if slot.rendering is not None and slot.rendering.text == slot.text:
                slot.rendering, slot.why = None, ""
        self._hold(slots, messages, fixed, state)
        return start

    def _hold(
        self,
        slots: Sequence[Slot],
        messages: Sequence[BaseMessage],
        fixed: int,
        state: Vector | None,
    ) -> None:
        """Bring the prompt under the budget by what may still be shortened: old results, then new."""
        for is_new in (False, True):
            results = [s for s in slots if s.is_result and not s.is_out and s.is_new == is_new]
            for slot in results if not is_new else sorted(results, key=lambda s: -s.shown_size):
                over = self._total(slots, {}, fixed) - self.limits.budget
                if over <= 0:
                    return
                if is_new:
                    self._shorten_one(slot, messages, slot.shown_text_size - over, state)
                else:
                    slot.rendering = self._bare(slot)
                slot.why = "to hold the budget"

    def _bare(self, slot: Slot) -> Rendering:
        return bare(slot.name, slot.text, slot.text_size, self.limits.with_recall, self._count)

    def _start_for(self, slots: Sequence[Slot], room: int, fixed: int) -> str:
        """Return the first message to show so that all but results' texts fits ``room`` tokens.

        Rounds of the last turn go only when earlier turns are gone; its last round never goes.
        """

        def least(slot: Slot) -> int:
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
        slots: Sequence[Slot],
        messages: Sequence[BaseMessage],
        budget: int,
        state: Vector | None,
        before: Sequence[BaseMessage],
    ) -> dict[str, Rendering]:
        """Ask the builder which parts of these results stay within ``budget`` tokens."""
        asked = f"{instruction_of(messages)} {' '.join(map(calls_text, before[-4:]))}"
        source = HistorySource([(s.key, s.text) for s in slots], self._embedder, asked)
        request = self._request(source, messages, budget, state, before)
        pieces = {piece.id: piece for piece in self._builder(request).pieces}
        return {
            slot.key: rendered(
                slot.name,
                slot.text,
                source.by_result[slot.key],
                pieces,
                self.limits.with_recall,
                self._count,
            )
            for slot in slots
        }

    def _request(
        self,
        source: HistorySource,
        messages: Sequence[BaseMessage],
        budget: int,
        state: Vector | None,
        before: Sequence[BaseMessage],
    ) -> ContextRequest:
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
        return ContextRequest(
            instruction=asked,
            observation=Observation("".join(c.text for c in source.all()), calls),
            source=source,
            events=tuple(e for e in events_of(before, max(len(before) - 6, 0)) if e.kind == "ACT"),
            budget=budget + lead,  # the frame's own line, which is not shown here
            state=state,
            profile=_PROFILE,
        )

    def _appendix(
        self,
        slots: Sequence[Slot],
        messages: Sequence[BaseMessage],
        room: int,
        state: Vector | None,
        appendices: Mapping[str, str],
    ) -> str:
        """Return what may help from elsewhere: by a kind that adds to a prompt, else by words."""
        hidden = [s for s in slots if s.is_result and (s.is_out or s.rendering is not None)]
        hidden = [s for s in hidden if not s.is_new]
        last = max((slot.place for slot in slots if not slot.is_result), default=0)
        newest = " ".join(s.text + " " + calls_text(s.message) for s in slots if s.place >= last)
        already = " ".join(appendices.values())
        if self._advise is None:
            calls = calls_in(slots)
            parts = [
                Hidden(
                    s.key,
                    s.name,
                    calls.get(getattr(s.message, "tool_call_id", ""), "result"),
                    s.text,
                    "" if s.rendering is None else s.rendering.text,
                )
                for s in hidden
            ]
            return appendix_for(parts, newest, already, room)
        source = HistorySource([(s.key, s.text) for s in hidden], self._embedder)
        if room < 20:
            return ""
        query = truncate(newest, _QUERY_TOKENS)
        request = self._request(source, messages, room, state, messages)
        budget = room + self._count(query) + _NOTE_TOKENS  # its own line of the query is not shown
        request = replace(request, instruction=query, budget=budget)
        pieces = [
            p for p in self._advise(request).pieces if p.kind in APPENDED_KINDS and p.text.strip()
        ]
        added = "".join(p.text for p in pieces if p.text.strip() not in already).strip()
        return added if added and self._count(added) <= room else ""


def _may_begin(slots: Sequence[Slot], start: int, last_turn: int) -> bool:
    """Say whether the shown messages may begin at ``start``: with a person, or within the last turn."""
    return slots[start].role == "human" or slots[start].turn == last_turn
