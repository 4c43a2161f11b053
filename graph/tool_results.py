"""Results of tools shortened before they enter a graph's state: for ``ToolNode``, or as middleware.

ToolNode(tools, wrap_tool_call=shorten_results(2000))
create_agent(model, tools, middleware=[shorten_results(2000), ContextMiddleware()])
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from stategate.envs.messages.history import text_of, with_text
from stategate.graph.recall_tool import kept_as
from stategate.nodes.build_context.messages.decisions import RECALL, Decisions
from stategate.nodes.build_context.messages.plan import SHORTENED
from stategate.nodes.build_context.messages.planner import HistoryPlanner
from stategate.stores.errors import describe_error

Result = ToolMessage | Command[Any]
Handler = Callable[[ToolCallRequest], Result]
#: Where the whole text is kept: in the message's artifact, in the graph's store, or nowhere.
Keep = bool | Literal["store"]


class ShortenedResults(AgentMiddleware[Any, Any, Any]):
    """A ``wrap_tool_call`` for a ``ToolNode``, and a middleware for ``create_agent``."""

    def __init__(self, tokens: int, kind: str, keep_original: Keep, **parameters: Any) -> None:
        super().__init__()
        # The result is the only thing that may be cut, and the rest of the history is free.
        self.context, self.without_recall = (
            HistoryPlanner(
                kind,
                10**9,
                max_new_result=tokens,
                appendix_tokens=0,
                recall=recall,
                parameters=parameters,
            )
            for recall in (bool(keep_original), False)
        )
        self._in_store = keep_original == "store"

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
        is_plain = isinstance(result, ToolMessage) and result.status != "error"
        if not isinstance(result, ToolMessage) or not is_plain or result.name == RECALL:
            return result
        store = getattr(request.runtime, "store", None) if self._in_store else None
        can_keep = result.artifact is None or isinstance(result.artifact, dict)
        context = self.context if can_keep else self.without_recall
        asked = [m for m in _messages(request) if m.type == "human"]
        call = AIMessage("", tool_calls=[request.tool_call])
        try:
            shown = context([*asked, call, result], Decisions()).messages[-1]
            short, whole = text_of(shown), text_of(result)
            if short == whole:
                return result
            told = {**result.response_metadata, SHORTENED: True}
            message: Any = with_text(result, short).model_copy(update={"response_metadata": told})
            if context.settings.recall:
                kept = {**(result.artifact or {}), **kept_as(whole, store)}
                message = message.model_copy(update={"artifact": kept})
        except Exception as error:  # builders and stores may raise anything: the result is there
            logging.getLogger("stategate").warning(
                "a result stays whole: %s", describe_error(error)
            )
            return result
        return message  # type: ignore[no-any-return]


def shorten_results(
    tokens: int = 2000, kind: str = "compress", *, keep_original: Keep = True, **parameters: Any
) -> ShortenedResults:
    """Return a ``wrap_tool_call`` that keeps what matters of a result of more than ``tokens``.

    What matters is decided by context kind ``kind`` from what was asked and called. The whole result
    stays in the message's artifact, which no model reads; with ``keep_original="store"`` it goes to the
    graph's store (``create_agent(store=…)``), where there is one, so that checkpoints stay small;
    ``recall`` finds it in both. With False it is gone. Results that a tool failed with are left alone.
    In a ``ToolNode``, tools that are awaited need ``awrap_tool_call=….awrap_tool_call``, too.
    """
    return ShortenedResults(tokens, kind, keep_original, **parameters)


def _messages(request: ToolCallRequest) -> list[BaseMessage]:
    state: Any = request.state
    if isinstance(state, list):
        return state
    messages = (
        state.get("messages") if isinstance(state, dict) else getattr(state, "messages", None)
    )
    return list(messages or [])
