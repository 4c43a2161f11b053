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
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from stategate.envs.messages.history import (
    MESSAGE_TOKENS,
    Count,
    bounded_count,
    calls_text,
    events_of,
    instruction_of,
    text_of,
    tokens_of,
)
from stategate.envs.messages.view import MessagesView
from stategate.envs.protocols import Observation, View, World
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.build_context.baselines import Window as WindowParams
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.build_context.experience import AdvisedContext
from stategate.nodes.build_context.messages.decisions import (
    OTHER_RECALL,
    RECALL,
    Decisions,
    HistorySettings,
    PreparedCall,
)
from stategate.nodes.build_context.messages.need import SHIPPED, NeedScorer, load_scorer
from stategate.nodes.build_context.messages.part_features import ThreadFacts, parts_of
from stategate.nodes.build_context.messages.parts import (
    Rendering,
    parts_by_words,
    rendered,
)
from stategate.nodes.build_context.messages.plan import (
    NOTE_TOKENS,
    History,
    Plan,
    Slot,
    apply,
)
from stategate.nodes.build_context.messages.selection import adjusted, select
from stategate.nodes.build_context.recall import ConversationContext
from stategate.nodes.protocols import (
    ContextBuilder,
    ContextParams,
    ContextRequest,
    EnvParams,
    Vector,
    WorldProfile,
)
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.history import HistorySource
from stategate.nodes.update_state import packed, unpacked
from stategate.stores.errors import UserError, warn_once
from stategate.stores.tokens import count_tokens, truncate

#: Kinds of pieces that are no part of what is in place: they go after everything else.
APPENDED_KINDS = ("passage", "memory", "fact", "experience")
_QUERY_TOKENS = 120
_WORTH_READING = 60  # tokens of a new result from which its parts are looked at
_SOME_RESULTS = 150  # tokens that a cut leaves for the parts of old results, at least
_LEAST_GAIN = 24  # tokens that shortening a new result must save
_PROFILE = WorldProfile(MessagesView())
_CACHED = 4096  # texts whose size is remembered, and schemas of tools


class MessagesEnv(EnvParams):
    """The chat messages of another agent: read, and played by nobody here."""

    kind: Literal["messages"] = "messages"

    def build(self, resources: Resources) -> World:
        """Raise ``UserError``: the agent that has these messages plays, not this graph."""
        raise UserError("give ContextMiddleware to the agent that has these messages")

    def view(self) -> View:
        """Return how results are read: as what they are."""
        return MessagesView()


class HistoryPlanner:
    """Shows histories through one context kind; calls of one thread hand on their ``Decisions``.

    Pure: the same history and decisions give the same prompt. What the kind needs is loaded by the
    first call that has to decide something. Raises ``UserError`` for an unknown kind or parameters
    that do not fit.
    """

    def __init__(self, kind: str = "compress", budget: int = 16_000, **settings: Any) -> None:
        self.settings = HistorySettings.of(kind, budget, settings)
        updater, embedder = self.settings.updater, self.settings.embedder or "minilm"
        self._resources = Resources(
            embedder=registry().parse("embedder", embedder),  # type: ignore[arg-type]
            updater=None if updater is None else registry().parse("updater", updater),  # type: ignore[arg-type]
            env=MessagesEnv(),
        )
        params = _params(kind, budget, self.settings.parameters)
        # A kind that adds to a prompt says what comes at its end; another what stays in place.
        self._advising: ContextParams | None = None
        self._choosing = params
        if isinstance(params, AdvisedContext):
            self._advising = params.model_copy(update={"inner": Full()})
            self._choosing = params.inner
        elif isinstance(params, ConversationContext):
            self._advising, self._choosing = params, Compress()
        self._schemas: dict[int, tuple[Any, str]] = {}
        # Histories repeat themselves: a text is counted once.
        count = bounded_count(self.settings.token_counter or count_tokens)
        self._count: Count = lru_cache(_CACHED)(count)

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
        count = self._count
        fixed = 0 if system is None else tokens_of(system, count)
        fixed += sum(count(self._schema(tool)) for tool in tools)
        decisions, state = self._read(messages, decisions)
        history = History.of(messages, decisions, fixed, count, self.settings)
        name = recall if self.settings.recall else ""
        history = replace(history, state=state, recall=name)
        return apply(history, self.plan(history, decisions), decisions, self.settings)

    def plan(self, history: History, previous: Decisions) -> Plan:
        """Return the plan for ``history`` after the ``previous`` decisions.

        1. Show everything as before. 2. Shorten new results where that pays. 3. Above the budget, cut:
        leave out the oldest rounds until the others fit, and choose the parts of old results anew.
        """
        plan = self._with_new(history, _repeated(history, previous))
        if history.size(plan) > self._ceiling(history):
            plan = self._cut(history, plan)
        if plan == Plan() and not history.orphans:
            return plan
        return self._with_appendix(history, plan)

    def _room(self, history: History) -> int:
        """Return the tokens for messages; tools and system message never take more than 3/4."""
        budget, fixed = self.settings.budget, history.fixed
        if fixed > budget // 2:
            warn_once(f"tools and system message take {fixed} of {budget} tokens: raise the budget")
        return max(budget - fixed, budget // 4)

    def _ceiling(self, history: History) -> int:
        return history.fixed + self._room(history)

    def _with_new(self, history: History, plan: Plan) -> Plan:
        """Shorten new results: those larger than their share, and parts that nobody will need."""
        scorer = self._scorer()
        max_tokens = self.settings.new_result_tokens(scorer is not None)
        for slot in history.slots:
            is_free = slot.is_new and not slot.was_shortened and not slot.is_pinned
            if not is_free or slot.tool in (RECALL, OTHER_RECALL):
                continue
            is_huge = len(slot.text) < len(text_of(slot.message))
            if slot.tool in self.settings.keep_whole and not is_huge:
                continue
            if slot.text_size > max_tokens:
                why = "larger than a new result may be"
                plan = plan.showing(slot, self._fitted(history, slot, max_tokens, why))
            elif scorer is not None and slot.text_size > _WORTH_READING:
                shorter = self._fitted(history, slot, slot.text_size, "parts that nobody will need")
                if slot.text_size - shorter.size >= _LEAST_GAIN:
                    plan = plan.showing(slot, shorter)
        return plan

    def _fitted(self, history: History, slot: Slot, room: int, why: str) -> Rendering:
        """Fit one result into ``room`` tokens, down to its note."""
        budget = room - NOTE_TOKENS
        for _ in range(3):
            if budget <= 0:
                break
            rendering = self._chosen(history, [slot], budget, slot.place)[slot.place]
            over = rendering.size - room
            if over <= 0:
                return replace(rendering, why=why)
            budget -= over + 8
        return slot.note(history.recall, history.count, why)

    def _cut(self, history: History, plan: Plan) -> Plan:
        """Plan everything anew, down to the low watermark."""
        low = round(self._room(history) * self.settings.low_watermark)
        room = history.fixed + low - min(low // 5, _SOME_RESULTS)
        left_out = history.left_out_within(room)
        results = [
            slot
            for slot in history.slots
            if slot.is_result and slot.place not in left_out and not slot.is_pinned
        ]
        old = [slot for slot in results if not slot.is_new]
        shortened = {
            slot.place: plan.renderings[slot.place]
            for slot in results
            if slot.is_new and slot.place in plan.renderings
        }
        plan = Plan(left_out, shortened, is_cut=True)
        room = history.fixed + low - history.size(plan)
        room += sum(slot.text_size - NOTE_TOKENS for slot in old)
        newest = old[-self._choosing.events :] if isinstance(self._choosing, WindowParams) else old
        chosen: dict[int, Rendering] = {}
        if newest and room > 0:
            chosen = self._chosen(history, newest, room, len(history.messages))
        why = "older than the newest results"
        for slot in old:
            if slot.place in chosen:
                rendering = replace(chosen[slot.place], why=f"by {self.settings.kind}")
            else:
                rendering = slot.note(history.recall, history.count, why)
            if rendering.text != slot.text:
                shortened[slot.place] = rendering
        return self._within_budget(history, replace(plan, renderings=shortened), results)

    def _within_budget(self, history: History, plan: Plan, results: Sequence[Slot]) -> Plan:
        """Bring the prompt under the budget by shortening old results, then new ones."""
        sizes = {slot.place: plan.size_of(slot) for slot in results if slot.is_new}
        for slot in sorted(results, key=lambda s: (s.is_new, -sizes.get(s.place, 0))):
            over = history.size(plan) - self._ceiling(history)
            if over <= 0:
                return plan
            why = "to hold the budget"
            if slot.is_new:
                room = plan.text_size_of(slot) - over
                plan = plan.showing(slot, self._fitted(history, slot, room, why))
            else:
                plan = plan.showing(slot, slot.note(history.recall, history.count, why))
        return plan

    def _chosen(
        self, history: History, slots: Sequence[Slot], budget: int, end: int
    ) -> dict[int, Rendering]:
        """Choose the parts of these results that stay: by need, else by the builder's words."""
        before = history.messages[:end]
        query = f"{instruction_of(history.messages)} {' '.join(map(calls_text, before[-4:]))}"
        source = self._source(slots, query)
        scorer = self._scorer()
        if scorer is not None:
            chances = self._chances(scorer, history, slots)
            chances = adjusted(chances, source.by_result, query)
            pieces = select(source.by_result, chances, budget, history.count)
        else:
            built = self._builder(self._choosing)(_request(history, source, before, budget))
            pieces = {piece.id: piece for piece in built.pieces}
        recall, count = history.recall, history.count
        return {
            s.place: rendered(s.name, s.text, source.by_result[s.key], pieces, recall, count)
            for s in slots
        }

    def _chances(
        self, scorer: NeedScorer, history: History, slots: Sequence[Slot]
    ) -> dict[str, Vector]:
        """Return for each result the chance of each part that a later turn needs it."""
        state = history.state
        if state is None or self._resources.updater is not None:
            state = scorer.update(scorer.initial(), history.messages)
        places = [i for i, message in enumerate(history.messages) if message.type == "tool"]
        ages = {place: age for age, place in enumerate(reversed(places))}
        results = [(parts_of(slot.text), slot.tool, ages[slot.place]) for slot in slots]
        scores = scorer.scores(state, ThreadFacts.of(history.messages), results)
        return {slot.key: row for slot, row in zip(slots, scores, strict=True)}

    def _scorer(self) -> NeedScorer | None:
        """Return what ranks parts by need; None for other kinds, and where no checkpoint ships."""
        if type(self._choosing) is not Compress or not self.settings.need:
            return None
        try:
            return load_scorer(self.settings.need)
        except UserError:
            if self.settings.need != SHIPPED:
                raise
            return None

    def _builder(self, params: ContextParams) -> ContextBuilder:
        is_compress = type(params) is Compress
        return parts_by_words if is_compress else cast(ContextBuilder, self._resources.get(params))

    def _source(self, slots: Sequence[Slot], query: str = "") -> HistorySource:
        results = [(slot.key, slot.text) for slot in slots]
        return HistorySource(results, lambda: self._resources.embedder, query)

    def _with_appendix(self, history: History, plan: Plan) -> Plan:
        """Add an appendix after the last message, where one may follow and something is to be said."""
        settings = self.settings
        if self._advising is None or not history.slots:
            return plan
        last = history.slots[-1]
        may_follow = last.message.type in ("human", "tool")  # nothing waits for an answer
        if not may_follow or last.key in plan.appendices or last.is_appendix:
            return plan
        tokens = settings.appendix_tokens
        tokens = settings.budget // 16 if tokens is None else tokens
        room = min(tokens, settings.budget - history.size(plan)) - MESSAGE_TOKENS
        appendix = self._advice(self._advising, history, plan, room) if room >= 20 else ""
        return plan.appending(last, appendix) if appendix else plan

    def _advice(self, params: ContextParams, history: History, plan: Plan, room: int) -> str:
        """Return the text that an appending kind adds for the newest messages."""
        gone = {*plan.left_out, *plan.renderings}
        hidden = [s for s in history.slots if s.is_result and s.place in gone and not s.is_new]
        last = max((slot.place for slot in history.slots if not slot.is_result), default=0)
        newest = " ".join(
            f"{slot.text} {calls_text(slot.message)}"
            for slot in history.slots
            if slot.place >= last
        )
        query = truncate(newest, _QUERY_TOKENS)
        request = _request(history, self._source(hidden), history.messages, room)
        # The kind's own line of the query is not shown.
        budget = room + history.count(query) + NOTE_TOKENS
        built = self._builder(params)(replace(request, instruction=query, budget=budget))
        already = " ".join(plan.appendices.values())
        texts = [piece.text for piece in built.pieces if piece.kind in APPENDED_KINDS]
        added = "".join(text for text in texts if text.strip() and text.strip() not in already)
        added = added.strip()
        return added if added and history.count(added) <= room else ""

    def _read(
        self, messages: Sequence[BaseMessage], decisions: Decisions
    ) -> tuple[Decisions, Vector | None]:
        """Let the updater, or what ranks by need, read what is new of the history."""
        updater, scorer = self._resources.updater, self._scorer()
        reader = updater or scorer
        if reader is None:
            return decisions, None
        start = decisions.read if decisions.read <= len(messages) else 0
        state = unpacked(decisions.recurrent) if start else reader.initial()
        if updater is not None:
            state = updater.update(state, events_of(messages, start))
        elif scorer is not None and state is not None:
            state = scorer.update(state, messages, start)
        return replace(decisions, recurrent=packed(state), read=len(messages)), state

    def _schema(self, tool: Any) -> str:
        """Return a tool as the model reads it; one that was read before is looked up."""
        cached = self._schemas.get(id(tool))
        if cached is not None and cached[0] is tool:
            return cached[1]
        schema = tool if isinstance(tool, dict) else convert_to_openai_tool(tool)
        text = json.dumps(schema, ensure_ascii=False, default=str)
        if len(self._schemas) >= _CACHED:
            self._schemas.clear()
        self._schemas[id(tool)] = (tool, text)
        return text


def _repeated(history: History, previous: Decisions) -> Plan:
    """Return the plan that shows everything as earlier calls did."""
    keys = {slot.key for slot in history.slots}
    gone = set(previous.left_out)
    left_out = {slot.place: "as before" for slot in history.slots if slot.key in gone}
    renderings = {
        slot.place: Rendering(slot.frozen, history.count(slot.frozen), "as before")
        for slot in history.slots
        if slot.frozen is not None and slot.place not in left_out and not slot.is_pinned
    }
    appendices = {key: text for key, text in previous.appendices.items() if key in keys}
    return Plan(left_out, renderings, appendices)


def _request(
    history: History, source: HistorySource, before: Sequence[BaseMessage], budget: int
) -> ContextRequest:
    """Return the request for parts of ``source``, after the messages ``before``."""
    instruction = instruction_of(history.messages)
    lead = history.count(f"Instruction: {' '.join(instruction.split())}\n")
    calls = tuple(
        dict.fromkeys(
            call["name"]
            for message in before[-8:]
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        )
    )
    return ContextRequest(
        instruction=instruction,
        observation=Observation("".join(chunk.text for chunk in source.all()), calls),
        source=source,
        events=tuple(e for e in events_of(before, max(len(before) - 6, 0)) if e.kind == "ACT"),
        budget=budget + lead,  # the frame's own line, which is not shown here
        state=history.state,
        profile=_PROFILE,
    )


def _params(kind: str, budget: int, parameters: dict[str, Any]) -> ContextParams:
    """Return the kind's parameters; those that only pages need are set for histories."""
    entry = registry().kinds("context").get(kind)
    fields = entry.cls.model_fields if entry is not None else {}
    defaults: dict[str, Any] = {"history": 0, "history_tokens": 0}
    if "history_tokens" not in fields:
        defaults["top_k"] = 60
    chosen = {name: value for name, value in defaults.items() if name in fields}
    values = {"kind": kind, "budget": budget, **chosen, **parameters}
    return cast(ContextParams, registry().parse("context", values))
