"""LangChain middleware: any agent's model calls read what a context builder keeps of the history.

    from stategate.graph.middleware import ContextMiddleware
    agent = create_agent(model, tools, middleware=[ContextMiddleware(kind="compress", budget=8000)])

Only the messages of the call change, never those in the agent's state. Graphs without ``create_agent``
use :meth:`ContextMiddleware.hook`. See ``docs/middleware.md``.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_stream_writer
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, TracePolicy, omit_payload

from stategate.envs.messages.history import (
    BEGINNING,
    LARGEST,
    NO_TEXT,
    bounded,
    keys_of,
    media_of,
    names_of,
    text_of,
    tokens_in,
    tokens_of,
    tool_of,
    tools_called,
    with_text,
)
from stategate.envs.messages.needs import calls_in, places_of, readable_text
from stategate.envs.messages.reading import spans
from stategate.nodes.build_context.messages.decisions import (
    OTHER_RECALL,
    RECALL,
    Audit,
    Decisions,
    HistorySettings,
    PreparedCall,
)
from stategate.nodes.build_context.messages.planner import HistoryPlanner
from stategate.nodes.retrieval.history import excerpt, find
from stategate.stores.errors import UserError, describe_error, warn_once
from stategate.stores.tokens import truncate

_KEY = "stategate"  # of the agent's state, where the decisions are kept
_MAX_HITS = 12  # parts that a search shows, and lines per word of the cut part of a large text
_MIN_WORD, _LINE = 3, 300  # characters of a word searched there, and of its line to each side
__all__ = ["ContextMiddleware", "HistorySettings"]


class ContextState(AgentState[Any]):
    """The agent's state with the builder's decisions: private, kept in checkpoints."""

    stategate: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class ContextMiddleware(AgentMiddleware[ContextState, Any, Any]):
    """Show each model call what a context builder keeps of the history, within a budget.

    ``kind`` is a context kind that chooses among parts, ``budget`` counts tokens of the whole prompt,
    tools and system message included. A longer prompt is cut to ``low_watermark`` of it; until the next
    cut, prompts only grow, so that the provider's cached prefix holds. :class:`HistorySettings` lists
    all settings with their defaults; any other is a parameter of the kind. If the agent has a tool
    named ``recall``, ours is named ``recall_message``.

    No failure here stops the agent: after ``timeout`` seconds, or if a builder raises, the call
    reads the untouched messages, and an event and a warning say so.
    Raises ``UserError`` for an unknown kind, a wrong parameter or a scorer of yours that is missing.
    """

    state_schema = ContextState
    trace_policy = TracePolicy(process_inputs=omit_payload)  # else traces repeat the history

    def __init__(self, kind: str = "compress", budget: int = 16_000, **settings: Any) -> None:
        super().__init__()
        self.context = HistoryPlanner(kind, budget, **settings)
        names = (RECALL, OTHER_RECALL) if self.context.settings.recall else ()
        self.tools = [recall_tool(self.context.settings.budget // 2, name) for name in names]

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> "ModelResponse[Any] | ExtendedModelResponse[Any]":
        """Call the model once, with what the builder keeps."""
        shortened, prepared = self._shorten(request)
        return _with_decisions(handler(shortened), request, prepared)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> "ModelResponse[Any] | ExtendedModelResponse[Any]":
        """Call the model once, with what the builder keeps; deciding does not block the loop."""
        shortened, prepared = await asyncio.to_thread(self._shorten, request)
        return _with_decisions(await handler(shortened), request, prepared)

    def hook(self, state: object) -> dict[str, Any]:
        """Return ``llm_input_messages`` for a graph's model: a ``pre_model_hook``, or a node before it.

        Also returns ``stategate``, the decisions: a state (mapping, pydantic model or dataclass)
        without that key, a dict, decides anew at every call. Give the graph's tool node ``tools`` too.
        """
        values = state if isinstance(state, Mapping) else vars(state)
        prepared = self._prepared(values["messages"], values)
        decisions = prepared.decisions or Decisions()
        return {"llm_input_messages": list(prepared.messages), _KEY: decisions.plain()}

    def preview(
        self,
        messages: Sequence[BaseMessage],
        system: SystemMessage | None = None,
        tools: Sequence[Any] = (),
    ) -> PreparedCall:
        """Return the messages that the next call would read, with the audit; no model is called.

        The earlier calls of the thread are planned first, in order, since their decisions bind.
        """
        fixed, decisions = (system, *self._with_one_recall(tools)), Decisions()
        for end in (*calls_in(messages), len(messages)):
            prepared = self.context(messages[:end], decisions, *fixed)
            decisions = prepared.decisions or decisions
        return prepared

    def restore(self, state: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """Return the update of the agent's state that keeps the messages ``names`` whole from now on.

        Names are message ids, or the five letters of a note. Raises ``UserError`` for any other. Use:
        ``agent.update_state(config, memory.restore(…))``.
        """
        messages: Sequence[BaseMessage] = state["messages"]
        ids = keys_of(messages)
        keys = dict(zip([*names_of(messages), *ids], [*ids, *ids], strict=True))
        if unknown := [name for name in names if name not in keys]:
            raise UserError(f"no message is called '{unknown[0]}'")
        before = Decisions.of(state.get(_KEY))
        restored = list(dict.fromkeys((*before.restored, *(keys[name] for name in names))))
        return {_KEY: replace(before, restored=restored).plain()}

    def _with_one_recall(self, tools: Sequence[Any]) -> tuple[list[Any], str]:
        """Return ``tools`` with the recall tool whose name is free, and that name ("" for none)."""
        if not self.tools:
            return list(tools), ""
        others = [t for t in tools if not any(t is recall for recall in self.tools)]
        names = {
            t.get("function", t).get("name") if isinstance(t, dict) else getattr(t, "name", None)
            for t in others
        }
        name = OTHER_RECALL if RECALL in names else RECALL
        if name != RECALL:
            warn_once(f"the agent has a tool '{RECALL}': ours is called '{name}'")
        return [*(t for t in self.tools if t.name == name), *others], name

    def _shorten(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], PreparedCall]:
        """Return the request that the model gets, and the prepared call that it follows."""
        tools, recall = self._with_one_recall(request.tools)
        bind = getattr(request.model, "bind_tools", None)
        takes_none = getattr(bind, "__func__", bind) in (None, BaseChatModel.bind_tools)
        if takes_none and tools == [*self.tools][:1]:  # LangChain's fakes, `with_retry`
            tools, recall = [], ""
        fixed = request.system_message, tools, recall
        prepared = self._prepared(request.messages, request.state, *fixed)
        messages: list[Any] = [*prepared.messages]
        return request.override(messages=messages, tools=tools), prepared

    def _prepared(
        self, messages: Sequence[BaseMessage], state: Mapping[str, Any], *fixed: Any
    ) -> PreparedCall:
        """Return what the planner makes of ``messages`` in time, or them untouched if it fails."""
        started = time.perf_counter()
        try:
            prepared = _started(
                lambda: self.context(messages, Decisions.of(state.get(_KEY)), *fixed)
            ).result(self.context.settings.timeout)
        except Exception as error:  # a builder may raise anything, and the agent must live
            prepared = self._fallback(messages, error)
        audit = replace(prepared.audit, seconds=round(time.perf_counter() - started, 6))
        with suppress(Exception):  # outside of a graph nobody listens
            get_stream_writer()(audit.as_dict())
        return prepared

    def _fallback(self, messages: Sequence[BaseMessage], error: Exception) -> PreparedCall:
        settings, problem = self.context.settings, describe_error(error, 300)
        if isinstance(error, TimeoutError):
            problem = f"no decision within {settings.timeout:g} s"
        warn_once(f"context {settings.kind}: messages pass untouched: {problem}")
        tokens = 0
        with suppress(Exception):  # what the builder could not read may not be countable either
            tokens = sum(tokens_of(message) for message in messages)
        audit = Audit(settings.kind, settings.budget, tokens, tokens, problem=problem[:300])
        return PreparedCall(tuple(map(_bounded, messages)), None, audit)


def _bounded(message: BaseMessage) -> BaseMessage:
    """Return ``message``, cut if it is a result above ``LARGEST``, which no model takes whole."""
    text = text_of(message)
    is_huge = isinstance(message, ToolMessage) and len(text) > LARGEST
    return with_text(message, bounded(text)) if is_huge else message


def _with_decisions(
    response: ModelResponse[Any], request: ModelRequest[Any], prepared: PreparedCall
) -> "ModelResponse[Any] | ExtendedModelResponse[Any]":
    """Return the response, with an update of the agent's state if the decisions changed."""
    if prepared.decisions is None:
        return response
    state: Mapping[str, Any] = request.state
    plain = prepared.decisions.plain()
    if plain == (state.get(_KEY) or Decisions().plain()):
        return response
    return ExtendedModelResponse(response, Command(update={_KEY: plain}))


def _started(work: Callable[[], PreparedCall]) -> "Future[PreparedCall]":
    """Start ``work`` in a new thread: builders that hang would fill a shared pool."""
    future: Future[PreparedCall] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:  # a builder that exits must not take the agent along
            future.set_exception(RuntimeError(f"the builder ended with {type(error).__name__}"))

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return future


def recall_tool(budget: int, name: str = RECALL) -> BaseTool:
    """Return the tool by which an agent sees earlier messages whole, ``budget`` tokens at most."""

    @tool(name)
    def recall(
        id: str, messages: Annotated[list[Any], InjectedState("messages")]
    ) -> str | list[Any]:
        """Show an earlier message whole: a tool's result, or what somebody said.

        Results may end with a note such as "[cut 512 tokens: recall 9f3a1]": give the five letters
        of the note as id, or those of several notes ("9f3a1 04b3b"). Words instead of an id find the
        parts of earlier messages that hold them.
        JSON is shown as an outline: after "rows{id,price}:" each line holds a row's id and price.
        """
        text, words = recalled(id, messages, budget, name), _words(id)
        pairs = zip(names_of(messages), messages, strict=True)
        media = [block for called, m in pairs if called in words for block in media_of(m)]
        return [{"type": "text", "text": text}, *media] if media else text

    return recall


def recalled(query: str, messages: Sequence[BaseMessage], budget: int, ours: str = RECALL) -> str:
    """Return the messages that ``query`` names, or the parts of messages that share its words.

    The search skips calls and results of the recall tool itself, which is named ``ours``.
    """
    texts: dict[str, str] = {}
    searched: dict[str, str] = {}
    tools = tools_called(messages)
    for name, message in zip(names_of(messages), messages, strict=True):
        if isinstance(message, SystemMessage):
            continue
        speaker = "" if isinstance(message, ToolMessage) else f"{message.type}: "
        texts[name] = speaker + (readable_text(message) or NO_TEXT)
        if tool_of(message, tools) != ours and (text := readable_text(message, ours)).strip():
            searched[name] = speaker + text
    if named := [texts[word] for word in _words(query) if word in texts]:
        return "\n\n".join(_truncated(text, budget // len(named)) for text in named)
    texts = dict(pair for item in searched.items() for pair in _searchable(*item, query))
    results = {key: spans(text) for key, text in texts.items()}
    hits: dict[str, dict[int, str]] = {}
    for key, part in find(query, results, _MAX_HITS):
        hits.setdefault(key, {})[part.number] = part.visible_text
    if not hits:
        latest = ", ".join(list(searched)[-20:]) or "none"
        return f"no earlier message is called or holds '{query}'; the latest are: {latest}"
    quoted = [f"{key}:\n{excerpt(results[key], hits[key])}" for key in results if key in hits]
    return _truncated("\n\n".join(quoted), budget)


def _words(query: str) -> list[str]:
    return list(dict.fromkeys("".join(c if c.isalnum() else " " for c in query.lower()).split()))


def _searchable(name: str, text: str, query: str) -> Iterator[tuple[str, str]]:
    """Yield (name, bounded text), and of a cut text the later lines that hold a word of ``query``."""
    yield name, bounded(text)
    rest = text[BEGINNING:] if len(text) > LARGEST else ""
    words = [word for word in dict.fromkeys(query.split()) if len(word) >= _MIN_WORD][:_MAX_HITS]
    lines: dict[str, None] = {}
    for at in (a for word in words for a in islice(places_of(word, rest), _MAX_HITS)):
        start = max(rest.rfind("\n", 0, at) + 1, at - _LINE, 0)
        end = rest.find("\n", at, at + _LINE)
        lines[rest[start : end if end >= 0 else at + _LINE]] = None
    if lines:
        yield f"{name}, further on", "\n".join(lines)


def _truncated(text: str, budget: int) -> str:
    if tokens_in(text) <= budget:
        return text
    head = truncate(text[: 12 * budget], budget)
    return f"{head}\n… ({tokens_in(text) - budget} more tokens; recall words)"
