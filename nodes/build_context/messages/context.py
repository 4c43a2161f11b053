"""A context kind by its name, made ready for histories: its builder, state, tokens, and settings."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from stategate.envs.messages.history import Count, events_of, tokens_of
from stategate.nodes.build_context.baselines import Window
from stategate.nodes.build_context.experience import AdvisedContext
from stategate.nodes.build_context.messages.decide import Decider
from stategate.nodes.build_context.messages.decisions import (
    RECALL,
    Decisions,
    HistorySettings,
    Limits,
    Shown,
)
from stategate.nodes.build_context.messages.whole_parts import for_results
from stategate.nodes.build_context.recall import ConversationContext
from stategate.nodes.observe.messages import MessagesEnv
from stategate.nodes.protocols import (
    BuiltContext,
    ContextBuilder,
    ContextParams,
    Vector,
)
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.nodes.update_state import packed, unpacked
from stategate.nodes.update_state.learned import LearnedUpdater
from stategate.stores.assets.weights import read_meta
from stategate.stores.errors import UserError
from stategate.stores.tokens import count_tokens

_MIN_NEW_RESULT = 150  # tokens of a new result that are always shown
_KNOWN_SIZES = 4096  # messages whose size is remembered


class HistoryContext:
    """Shows histories through one context kind; calls of one thread hand on their ``Decisions``.

    Raises ``UserError`` for an unknown kind or parameters that do not fit. What the kind needs is
    loaded by the first call that has to decide something.
    """

    def __init__(self, kind: str = "compress", budget: int = 16_000, **settings: Any) -> None:
        chosen = HistorySettings.of(kind, budget, settings)
        self.kind = kind
        self._updater: Any = (
            None if chosen.updater is None else registry().parse("updater", chosen.updater)
        )
        can_weigh = _can_weigh(self._updater) or "checkpoint" in chosen.parameters
        params = _params(kind, budget, chosen.parameters, can_weigh)
        # A kind that adds to a prompt says what comes at its end; another what stays in place.
        is_adding = isinstance(params, ConversationContext | AdvisedContext)
        self._advising = params if is_adding else None
        self.params = params
        if isinstance(params, AdvisedContext):
            self.params = params.inner
        elif is_adding:
            self.params = _params("compress", budget, {}, can_weigh=False)
        self._resources = Resources(
            embedder=registry().parse("embedder", chosen.embedder or "minilm"),  # type: ignore[arg-type]
            updater=self._updater,  # type: ignore[arg-type]
            env=MessagesEnv(),
        )
        self.limits = _limits(chosen, is_adding, self.params)
        self._counter = chosen.token_counter
        self._sizes: dict[str, tuple[Any, Any, int]] = {}
        self._remembered: dict[Count, Count] = {}
        self._schemas: dict[int, tuple[Any, str]] = {}

    def __call__(
        self,
        messages: Sequence[BaseMessage],
        decisions: Decisions,
        system: SystemMessage | None = None,
        tools: Sequence[Any] = (),
        model: Any = None,
    ) -> Shown:
        """Return what a call reads of ``messages``, and the decisions for the next call."""
        count = self._count_for(model)
        fixed = 0 if system is None else tokens_of(system, count)
        fixed += sum(count(self._schema(tool)) for tool in tools)
        decisions, state = self._read(messages, decisions)
        decide = Decider(
            self.limits,
            self._builder(self.params),
            lambda: self._resources.embedder,
            count,
            lambda message: self._size(message, count),
            None if self._advising is None else self._builder(self._advising),
        )
        return decide(messages, decisions, fixed, state)

    def _builder(self, params: ContextParams) -> ContextBuilder:
        own = for_results(params)
        return lambda request: cast(BuiltContext, self._resources.get(own)(request))

    def _count_for(self, model: Any) -> Count:
        """Return a counter that remembers texts, each in full: histories repeat themselves."""
        plain = self._counter or counter_of(model)
        if plain not in self._remembered:
            self._remembered[plain] = lru_cache(maxsize=_KNOWN_SIZES)(plain)
        return self._remembered[plain]

    def _read(
        self, messages: Sequence[BaseMessage], decisions: Decisions
    ) -> tuple[Decisions, Vector | None]:
        """Let the updater read what is new of the history."""
        if self._updater is None:
            return decisions, None
        updater = self._resources.updater
        if updater is None:
            return decisions, None
        start = decisions.read if decisions.read <= len(messages) else 0
        state = unpacked(decisions.recurrent) if start else updater.initial()
        state = updater.update(state, events_of(messages, start))
        return replace(decisions, recurrent=packed(state), read=len(messages)), state

    def _schema(self, tool: Any) -> str:
        """Return a tool as the model reads it; one that was read before is looked up."""
        known = self._schemas.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        schema = tool if isinstance(tool, dict) else convert_to_openai_tool(tool)
        text = json.dumps(schema, ensure_ascii=False, default=str)
        if len(self._schemas) >= _KNOWN_SIZES:
            self._schemas.clear()
        self._schemas[id(tool)] = (tool, text)
        return text

    def _size(self, message: BaseMessage, count: Count) -> int:
        """Return a message's tokens; one that was counted before is looked up."""
        if message.id is None:
            return tokens_of(message, count)
        calls = getattr(message, "tool_calls", None)
        known = self._sizes.get(message.id)
        if known is not None and known[0] is message.content and known[1] is calls:
            return known[2]
        if len(self._sizes) >= _KNOWN_SIZES:
            self._sizes.clear()
        size = tokens_of(message, count)
        self._sizes[message.id] = (message.content, calls, size)
        return size


def _limits(chosen: HistorySettings, is_adding: bool, params: ContextParams) -> Limits:
    """Return the settings with their defaults resolved for a kind."""
    appendix = chosen.appendix_tokens
    if appendix is None:
        appendix = 0 if chosen.recall and not is_adding else chosen.budget // 16
    newest = params.events if isinstance(params, Window) else None
    return Limits(
        kind=chosen.kind,
        budget=chosen.budget,
        low_watermark=chosen.low_watermark,
        max_new_result=max(chosen.budget // 40, _MIN_NEW_RESULT)
        if chosen.max_new_result is None
        else chosen.max_new_result,
        appendix_tokens=appendix,
        newest=newest,
        with_recall=chosen.recall,
        keep_whole=frozenset({*chosen.keep_whole, RECALL}),
    )


def _can_weigh(updater: Any) -> bool:
    """Say whether the allocator that ships was trained on the state of this updater."""
    if not isinstance(updater, LearnedUpdater):
        return False
    try:
        state, allocator = read_meta(updater.weights), read_meta(f"allocator-{updater.kind}")
    except UserError:
        return False
    return bool(state["sha256"] == allocator.get("state_sha256"))


def _params(kind: str, budget: int, parameters: dict[str, Any], can_weigh: bool) -> ContextParams:
    """Return the kind's parameters; those that only pages need are set for histories."""
    known = registry().kinds("context").get(kind)
    fields = known.cls.model_fields if known is not None else {}
    defaults: dict[str, Any] = {"history": 0, "history_tokens": 0, "follow_ups": False}
    if "allocator" in fields and not can_weigh:
        defaults["allocator"] = "relevance"
    if "top_k" in fields and "history_tokens" not in fields:
        defaults["top_k"] = 60
    chosen = {name: value for name, value in defaults.items() if name in fields}
    params: Any = registry().parse(
        "context", {"kind": kind, "budget": budget, **chosen, **parameters}
    )
    return params  # type: ignore[no-any-return]


def counter_of(model: Any) -> Count:
    """Return the tokenizer of ``model`` where it is known and can be had, else cl100k."""
    name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")
    return _counter_named(name)


@lru_cache(maxsize=32)
def _counter_named(name: str) -> Count:
    import tiktoken

    try:
        known = tiktoken.encoding_name_for_model(name)
        if known == "cl100k_base":
            return count_tokens
        encoding = tiktoken.get_encoding(known)
    except Exception:  # unknown, or its file is not here and there is no network
        return count_tokens

    @lru_cache(maxsize=8192)
    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    return count
