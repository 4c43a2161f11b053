"""Results of tools, shortened before they enter a graph's state; messages, shown whole by ``recall``.

ToolNode(tools, wrap_tool_call=shorten_results(2000))
create_agent(model, tools, middleware=[shorten_results(2000), ContextMiddleware()])
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from stategate.envs.messages.history import bounded, bounded_count, name_of, text_of
from stategate.envs.messages.needs import readable_text
from stategate.nodes.build_context.messages.decisions import OTHER_RECALL, RECALL, Decisions
from stategate.nodes.build_context.messages.planner import HistoryPlanner
from stategate.nodes.retrieval.history import HistorySource, excerpt
from stategate.stores.errors import describe_error, warn_once
from stategate.stores.tokens import count_tokens, truncate

Result = ToolMessage | Command[Any]
Handler = Callable[[ToolCallRequest], Result]
_ORIGINAL = "stategate_original"  # in an artifact
_FOUND = 12  # parts that a search shows


# Shortened results --------------------------------------------------------------------------------


class ShortenedResults(AgentMiddleware[Any, Any, Any]):
    """A ``wrap_tool_call`` for a ``ToolNode``, and a middleware for ``create_agent``."""

    def __init__(self, tokens: int, kind: str, keep_original: bool, **parameters: Any) -> None:
        super().__init__()
        # The result is the only thing that may be cut, and the rest of the history is free.
        self.context = HistoryPlanner(
            kind,
            10**9,
            max_new_result=tokens,
            appendix_tokens=0,
            recall=keep_original,
            parameters=parameters,
        )

    def wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Result:
        """Call the tool, and shorten what it returns."""
        return self._shortened(request, handler(request))

    __call__ = wrap_tool_call

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Await the tool, and shorten what it returns; deciding does not block the loop."""
        return await asyncio.to_thread(self._shortened, request, await handler(request))

    def _shortened(self, request: ToolCallRequest, result: Result) -> Result:
        if not isinstance(result, ToolMessage) or result.status == "error":
            return result
        if result.name in (RECALL, OTHER_RECALL):
            return result
        keeps = self.context.settings.recall
        if keeps and not isinstance(result.artifact, dict | None):  # no room for the original
            return result
        call = AIMessage("", tool_calls=[request.tool_call])
        try:
            requests = [m for m in messages_of(request.state) if m.type == "human"]
            shorter = self.context([*requests, call, result], Decisions()).messages[-1]
        except Exception as error:  # builders and stores may raise anything: the result is there
            warn_once(f"a result stays whole: {describe_error(error)}")
            return result
        whole = text_of(result)
        if text_of(shorter) == whole or not isinstance(shorter, ToolMessage):
            return result
        if keeps:
            shorter.artifact = {**(result.artifact or {}), _ORIGINAL: whole}
        return shorter


def shorten_results(
    tokens: int = 2000, kind: str = "compress", *, keep_original: bool = True, **parameters: Any
) -> ShortenedResults:
    """Return a ``wrap_tool_call`` that shortens results of more than ``tokens``.

    Context kind ``kind`` chooses the parts that stay, by the user's messages and the call. The whole
    result stays in the message's artifact, which no model reads and where ``recall`` finds it; without
    ``keep_original`` it is gone. Results of failed tools are left alone, and those whose artifact is no
    mapping. In a ``ToolNode``, tools that are awaited need ``awrap_tool_call=….awrap_tool_call``, too.
    """
    return ShortenedResults(tokens, kind, keep_original, **parameters)


def messages_of(state: Any) -> list[BaseMessage]:
    """Return the messages of a graph's state: a list, a mapping or an object."""
    if isinstance(state, list):
        return state
    messages = (
        state.get("messages") if isinstance(state, dict) else getattr(state, "messages", None)
    )
    return list(messages or [])


def artifact_of(message: BaseMessage) -> Mapping[str, Any]:
    """Return the mapping in a tool message's artifact, {} where it has none."""
    artifact = message.artifact if isinstance(message, ToolMessage) else None
    return artifact if isinstance(artifact, Mapping) else {}


# Recall -------------------------------------------------------------------------------------------


def recall_tool(budget: int, name: str = RECALL) -> BaseTool:
    """Return the tool by which an agent sees earlier messages whole, ``budget`` tokens at most."""

    @tool(name)
    def recall(id: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Show an earlier message whole: a tool's result, or what somebody said.

        Results may end with a note such as "[cut 512 tokens: recall 9f3a1]": give the five letters
        of the note as id. Words instead of an id find the parts of earlier messages that hold them.
        """
        return recalled(id, state["messages"], budget)

    return recall


def recalled(query: str, messages: Sequence[BaseMessage], budget: int) -> str:
    """Return the message named ``query``, or the parts of messages that share its words."""
    texts = [
        (name_of(message, place), f"{message.type}: " * _is_said(message) + _original(message))
        for place, message in enumerate(messages)
        if message.name not in (RECALL, OTHER_RECALL) and not isinstance(message, SystemMessage)
    ]
    texts = [(name, text) for name, text in texts if text.strip()]
    words = query.replace(OTHER_RECALL, "").strip().strip("[]\"'")
    name = words.removeprefix(RECALL).strip().lower()
    whole = [text for other, text in texts if other == name]
    if whole:
        return _fitting("\n\n".join(whole), budget)
    source = HistorySource([(other, bounded(text)) for other, text in texts])
    places: dict[str, list[int]] = {}
    for chunk, _ in source.find(query, _FOUND):
        result, _, place = chunk.id.rpartition("/")
        places.setdefault(result, []).append(int(place))
    if not places:
        latest = ", ".join(other for other, _ in texts[-20:]) or "none"
        return f"no earlier message is called or holds '{query}'; the latest are: {latest}"
    quoted = [
        f"{key}:\n{excerpt(source.by_result[key], numbers)}" for key, numbers in places.items()
    ]
    return _fitting("\n\n".join(quoted), budget)


def _is_said(message: BaseMessage) -> bool:
    return not isinstance(message, ToolMessage)


def _original(message: BaseMessage) -> str:
    """Return a message's text; a result's as the tool gave it, where the original is there."""
    whole = artifact_of(message).get(_ORIGINAL) if isinstance(message, ToolMessage) else None
    return whole if isinstance(whole, str) else readable_text(message)


def _fitting(text: str, budget: int) -> str:
    count = bounded_count(count_tokens)
    if count(text) <= budget:
        return text
    head = truncate(text[: 12 * budget], budget)
    return f"{head}\n… ({count(text) - budget} more tokens; recall words)"
