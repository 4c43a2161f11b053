"""The history planner: one model call's view of a history, repeated byte for byte until a cut.

A new result that is larger than its share is shortened at once, before it was ever paid for. When the
prompt passes the budget (the high watermark), everything is planned anew, down to the low watermark. In
between no visible text changes, so that a provider's prefix cache holds. An ordinary context builder
chooses the parts of results that stay.

Invariants (property-tested): a call and its results stay or go together; the last human turn and calls
that wait for results stay whole; ids and order never change; the budget holds, or the audit gives the
excess.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ValidationError

from stategate.envs.messages.history import (
    bounded,
    instruction_of,
    text_of,
    tokens_in,
    tokens_of,
)
from stategate.envs.messages.needs import readable_text
from stategate.envs.messages.reading import spans
from stategate.envs.protocols import Observation
from stategate.nodes.build_context.baselines import Window
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.build_context.messages.decisions import (
    RECALL,
    Decisions,
    HistorySettings,
    PreparedCall,
)
from stategate.nodes.build_context.messages.features import parts_of
from stategate.nodes.build_context.messages.need import (
    RECENT,
    SHIPPED,
    NeedScorer,
    load_scorer,
)
from stategate.nodes.build_context.messages.parts import (
    ELISION,
    Shown,
    adjusted,
    ends,
    is_shortened,
    rendered,
    select,
)
from stategate.nodes.build_context.messages.slots import NOTE_TOKENS, History, Slot
from stategate.nodes.protocols import ContextBuilder, ContextParams, ContextRequest, Vector
from stategate.nodes.registry import first_problem, registry
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.history import HistorySource, Results
from stategate.stores.errors import UserError, warn_once

#: Kinds of ours that add to a prompt, or read what no history of messages has.
_UNFIT = ("experience", "experience_trace", "recall", "retrieve", "rico", "summary")
_MIN_NEW_RESULT = 150  # tokens of a new result that are always shown
_WORTH_READING = 60  # tokens of a new result from which its parts are looked at
_LEAST_GAIN = 24  # tokens that shortening a new result must save
_TOP_K = 60  # parts of results that `query_rag` shows
_ANY_PART = 0.0033  # chance of every part where no scorer tells them apart


class HistoryPlanner:
    """Shows histories through one context kind; calls of one thread hand on their ``Decisions``.

    Pure: the same history and decisions give the same prompt. Raises ``UserError`` for an unknown kind
    or parameters that do not fit, or a scorer that is not there.
    """

    def __init__(self, kind: str = "compress", budget: int = 16_000, **settings: Any) -> None:
        if kind in _UNFIT:
            raise UserError(
                f"context.kind={kind} does not choose parts of results: take compress, window, full "
                "or query_rag; memory and experience are tools (docs/middleware.md)"
            )
        try:
            self.settings = HistorySettings(kind=kind, budget=budget, **settings)
        except ValidationError as error:
            raise UserError(f"ContextMiddleware: {first_problem(error)}") from None
        embedder = registry().parse("embedder", self.settings.embedder)
        self._resources = Resources(embedder=embedder)  # type: ignore[arg-type]
        many = {"top_k": _TOP_K} if kind == "query_rag" else {}
        values = {"kind": kind, "budget": budget, **many, **(self.settings.model_extra or {})}
        self._params = cast(ContextParams, registry().parse("context", values))
        self._scorer = self._load_scorer()

    def _load_scorer(self) -> NeedScorer | None:
        """Return what ranks parts by need; None for other kinds, and where no checkpoint ships."""
        if not isinstance(self._params, Compress) or not self.settings.need:
            return None
        try:
            return load_scorer(self.settings.need)
        except UserError as error:
            if self.settings.need != SHIPPED:
                raise
            warn_once(f"{error}: the middleware ranks by words")
            return None

    def __call__(
        self,
        messages: Sequence[BaseMessage],
        decisions: Decisions,
        system: SystemMessage | None = None,
        tools: Sequence[Any] = (),
        recall: str = RECALL,
    ) -> PreparedCall:
        """Return the messages that a call reads, and the decisions for the next call.

        ``recall`` is the name of the tool that shows a message whole.
        """
        fixed = 0 if system is None else tokens_of(system)
        fixed += sum(tokens_in(_schema(tool)) for tool in tools)
        recall = recall if self.settings.recall else ""
        history = History.of(messages, decisions, self.settings, fixed=fixed, recall=recall)
        # 1. Everything is shown as before. 2. New results are shortened where that pays. 3. Above the
        # budget the oldest rounds are left out until the others fit, and old results chosen anew.
        self._shorten_new(history)
        if history.size > fixed + self._room(history):
            self._cut(history)
        prepared = history.prepared(decisions, self.settings)
        if prepared.audit.over_by:
            warn_once(f"what must stay takes over {self.settings.budget} tokens: raise the budget")
        return prepared

    def _room(self, history: History) -> int:
        """Return the tokens for messages; tools and system message never take more than 3/4."""
        budget, fixed = self.settings.budget, history.fixed
        if fixed > budget // 2:
            warn_once(f"tools and system message take {fixed} of {budget} tokens: raise the budget")
        return max(budget - fixed, budget // 4)

    def _shorten_new(self, history: History) -> None:
        """Shorten new results: those larger than their share, and parts that nobody will need."""
        max_tokens = self.settings.max_new_result
        if max_tokens is None:
            max_tokens = max(self.settings.budget // (4 if self._scorer else 40), _MIN_NEW_RESULT)
        for slot in history.slots:
            if not slot.is_new or slot.is_pinned or slot.tool == (history.recall or None):
                continue
            if slot.tool in self.settings.keep_whole and not slot.is_huge:
                continue
            is_read = self._scorer is not None and slot.text_size > _WORTH_READING
            if slot.text_size > max_tokens:
                shorter = self._fitted(history, slot, max_tokens)
                slot.shown, slot.why = shorter, "larger than a new result may be"
            elif is_read and not is_shortened(slot.text):
                room = 3 * slot.text_size  # for all parts, with the signs of omissions beside them
                shorter = self._fitted(history, slot, room)
                if slot.text_size - tokens_in(shorter) >= _LEAST_GAIN:
                    slot.shown, slot.why = shorter, "parts that nobody will need"

    def _fitted(self, history: History, slot: Slot, room: int) -> str:
        """Fit one result into ``room`` tokens, down to its note."""
        budget = room - NOTE_TOKENS
        for _ in range(3):
            if budget <= 0:
                break
            (text,) = self._chosen(history, [slot], budget)
            over = tokens_in(text) - room
            if over <= 0:
                return text
            budget -= over + 8
        return _rendered(history, slot, {})

    def _cut(self, history: History) -> None:
        """Plan everything anew, down to the low watermark."""
        history.is_cut = True
        low = round(self._room(history) * self.settings.low_watermark)
        results = [slot for slot in history.slots if slot.is_result]
        if self._scorer is not None:
            self._chances(history, [s for s in results[-RECENT // 2 :] if not s.is_new])
        history.leave_out(low, self._room(history))
        results = [slot for slot in results if not slot.omitted and not slot.is_pinned]
        old = [slot for slot in results if not slot.is_new]
        for slot in old:
            slot.shown = None
        room = history.fixed + low - history.size
        room += sum(slot.text_size - NOTE_TOKENS for slot in old)
        chosen = self._chosen(history, old, max(room, 0))
        for slot, text in zip(old, chosen, strict=True):
            if text != text_of(slot.message):
                slot.shown, slot.why = text, f"by {self.settings.kind}"
        self._hold_budget(history, results)

    def _hold_budget(self, history: History, results: Sequence[Slot]) -> None:
        """Bring the prompt under the budget by shortening old results, then new ones."""
        for slot in sorted(results, key=lambda s: (s.is_new, -s.visible_size * s.is_new)):
            over = history.size - history.fixed - self._room(history)
            if over <= 0:
                return
            room = slot.text_size - (slot.size - slot.visible_size) - over if slot.is_new else 0
            text = self._fitted(history, slot, room)
            if text != text_of(slot.message):
                slot.shown, slot.why = text, "to hold the budget"

    def _chosen(self, history: History, slots: Sequence[Slot], budget: int) -> list[str]:
        """Choose the parts of these results that stay: by need, or as the kind's builder does."""
        newest = slots[-self._params.events :] if isinstance(self._params, Window) else slots
        new = [slot for slot in slots if slot.is_new]
        before = history.messages[: new[0].index] if new else history.messages
        said = [readable_text(m) for m in before[-4:] if isinstance(m, AIMessage)]
        query = bounded(" ".join([instruction_of(history.messages), *said]))
        results = {slot.key: spans(slot.text) for slot in newest}
        if isinstance(self._params, Compress):
            chances = adjusted(self._chances(history, slots), results, query)
            visible = select(results, chances, budget)
            is_much_cut = any(self._scorer and slot.text_size > 2 * budget for slot in new)
            if new and (is_much_cut or not any(visible.values())):
                visible = {k: {**r, **visible[k]} for k, r in ends(results, budget).items()}
        else:
            visible = self._built(results, query, instruction_of(history.messages), budget)
        return [_rendered(history, slot, visible.get(slot.key, {})) for slot in slots]

    def _built(
        self, results: Results, query: str, instruction: str, budget: int
    ) -> dict[str, Shown]:
        """Return what the builder of another kind shows of the parts, within ``budget`` tokens."""
        # The frame's own line is not shown here.
        budget += tokens_in(f"Instruction: {' '.join(instruction.split())}\n")
        source = HistorySource(results, lambda: self._resources.embedder, query)
        build_context = cast(ContextBuilder, self._resources.get(self._params))
        request = ContextRequest(instruction, Observation("", ()), source, (), budget)
        visible: dict[str, dict[int, str]] = {name: {} for name in results}
        for piece in build_context(request).pieces:
            if piece.id in source.parts and piece.text.strip():
                name, part = source.parts[piece.id]
                is_whole = piece.tokens_after == piece.tokens_before
                cut = f"{piece.text.rstrip()} {ELISION}"
                visible[name][part.number] = part.visible_text if is_whole else cut
        return {**visible}

    def _chances(self, history: History, slots: Sequence[Slot]) -> dict[str, Vector]:
        """Return for each result the chance of each part that a later turn needs it.

        A result is scored once a call, however often its parts are chosen.
        """
        unread = [slot for slot in slots if slot.index not in history.chances]
        results = [(parts_of(slot.text), slot.tool) for slot in unread]
        if self._scorer is None:
            rows = [np.full(len(parts), _ANY_PART, dtype=np.float32) for parts, _ in results]
        else:
            indices = [i for i, m in enumerate(history.messages) if isinstance(m, ToolMessage)]
            ages = {index: age for age, index in enumerate(reversed(indices))}
            aged = [(*result, ages[s.index]) for result, s in zip(results, unread, strict=True)]
            history.thread = history.thread or self._scorer.read(history.messages)
            rows = self._scorer.scores(*history.thread, aged)
        history.chances |= {slot.index: row for slot, row in zip(unread, rows, strict=True)}
        return {slot.key: history.chances[slot.index] for slot in slots}


def _rendered(history: History, slot: Slot, shown: Shown) -> str:
    """Return a result's visible parts with a note; the note alone if nothing is visible."""
    return rendered(slot.name, slot.text, shown, history.recall, slot.beyond)


def _schema(tool: Any) -> str:
    """Return a tool as the model reads it."""
    schema = tool if isinstance(tool, dict) else convert_to_openai_tool(tool)
    return json.dumps(schema, ensure_ascii=False, default=str)
