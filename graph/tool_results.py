"""Results of tools: shortened before they enter a graph's state, and shown whole again by ``recall``.

ToolNode(tools, wrap_tool_call=shorten_results(2000))
create_agent(model, tools, middleware=[shorten_results(2000), ContextMiddleware()])
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from stategate.envs.messages.history import name_of, text_of, with_text
from stategate.nodes.build_context.messages.decisions import RECALL, Decisions
from stategate.nodes.build_context.messages.plan import SHORTENED
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

    def __call__(self, request: ToolCallRequest, handler: Handler) -> Result:
        """Call the tool, and shorten what it returns."""
        return self._shortened(request, handler(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Result:
        """Do the same as a middleware's hook."""
        return self(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Await the tool, and shorten what it returns; deciding does not block the loop."""
        return await asyncio.to_thread(self._shortened, request, await handler(request))

    def _shortened(self, request: ToolCallRequest, result: Result) -> Result:
        if not isinstance(result, ToolMessage) or result.status == "error" or result.name == RECALL:
            return result
        keeps = self.context.settings.recall
        if keeps and not isinstance(result.artifact, dict | None):  # no room for the original
            return result
        call = AIMessage("", tool_calls=[request.tool_call])
        try:
            asked = [m for m in messages_of(request.state) if m.type == "human"]
            shown = self.context([*asked, call, result], Decisions()).messages[-1]
            short, whole = text_of(shown), text_of(result)
            if short == whole:
                return result
            told = {**result.response_metadata, SHORTENED: True}
            content = with_text(result, short).content
            update: dict[str, Any] = {"content": content, "response_metadata": told}
            if keeps:
                update["artifact"] = {**(result.artifact or {}), _ORIGINAL: whole}
            message = result.model_copy(update=update)
        except Exception as error:  # builders and stores may raise anything: the result is there
            warn_once(f"a result stays whole: {describe_error(error)}")
            return result
        return message


def shorten_results(
    tokens: int = 2000, kind: str = "compress", *, keep_original: bool = True, **parameters: Any
) -> ShortenedResults:
    """Return a ``wrap_tool_call`` that keeps what matters of a result of more than ``tokens``.

    What matters is decided by context kind ``kind`` from what was asked and called. The whole result
    stays in the message's artifact, which no model reads and where ``recall`` finds it; without
    ``keep_original`` it is gone. Results of failed tools are left alone, and those whose artifact is no
    mapping. In a ``ToolNode``, tools that are awaited need ``awrap_tool_call=….awrap_tool_call``, too.
    """
    return ShortenedResults(tokens, kind, keep_original, **parameters)


def messages_of(state: Any) -> list[BaseMessage]:
    """Return the messages of a graph's state: a list, a mapping or an object."""
    if isinstance(state, list):
        return state
    found = state.get("messages") if isinstance(state, dict) else getattr(state, "messages", None)
    return list(found or [])


# Recall -------------------------------------------------------------------------------------------


def recall_tool(budget: int) -> BaseTool:
    """Return the tool by which an agent sees earlier results whole, ``budget`` tokens at most."""

    @tool
    def recall(id: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Show an earlier tool result whole.

        Results may end with a note such as "[cut 512 tokens: recall 9f3a1]": give the five letters
        of the note as id. Words instead of an id find the parts of earlier results that hold them.
        """
        return recalled(id, state["messages"], budget)

    return recall


def recalled(wanted: str, messages: Sequence[BaseMessage], budget: int) -> str:
    """Return the result named ``wanted``, or the parts of results that share its words."""
    results = [
        (name_of(message, place), _original(message))
        for place, message in enumerate(messages)
        if isinstance(message, ToolMessage) and message.name != RECALL
    ]
    name = wanted.strip().strip("[]\"'").removeprefix("recall").strip().lower()
    whole = [text for known, text in results if known == name]
    if whole:
        return _fitting("\n\n".join(whole), budget)
    source = HistorySource(results)
    places: dict[str, list[int]] = {}
    for chunk, _ in source.find(wanted, _FOUND):
        result, _, place = chunk.id.rpartition("/")
        places.setdefault(result, []).append(int(place))
    if not places:
        latest = ", ".join(known for known, _ in results[-20:]) or "none"
        return f"no earlier result is called or holds '{wanted}'; the latest are: {latest}"
    quoted = [f"{key}:\n{excerpt(source.by_result[key], found)}" for key, found in places.items()]
    return _fitting("\n\n".join(quoted), budget)


def _original(message: ToolMessage) -> str:
    """Return a result's text as the tool gave it; as it is shown where the original is gone."""
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    whole = artifact.get(_ORIGINAL)
    return whole if isinstance(whole, str) else text_of(message)


def _fitting(text: str, budget: int) -> str:
    if count_tokens(text) <= budget:
        return text
    return truncate(text, budget) + f"\n… ({count_tokens(text) - budget} more tokens; recall words)"
