"""One tool's results shortened before they enter a graph's state: a wrapper for ``ToolNode``.

ToolNode(tools, wrap_tool_call=shorten_results(2000))
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from envs.messages.history import text_of, with_text
from nodes.build_context.messages.context import HistoryContext
from nodes.build_context.messages.decisions import Decisions

Result = ToolMessage | Command[Any]
Handler = Callable[[ToolCallRequest], Result]
_ORIGINAL = "stategate_original"


class ShortenedResults:
    """A ``wrap_tool_call``, and as ``awrap`` the same for tools that are awaited."""

    def __init__(self, tokens: int, kind: str, keep_original: bool, **parameters: Any) -> None:
        # The result is the only thing that may be cut, and the rest of the history is free.
        self.context, self.without_recall = (
            HistoryContext(kind, 10**9, fresh=tokens, tail=0, recall=recall, parameters=parameters)
            for recall in (keep_original, False)
        )

    def __call__(self, request: ToolCallRequest, handler: Handler) -> Result:
        """Call the tool, and shorten what it returns."""
        return self._shortened(request, handler(request))

    async def awrap(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Await the tool, and shorten what it returns; deciding does not block the loop."""
        return await asyncio.to_thread(self._shortened, request, await handler(request))

    def _shortened(self, request: ToolCallRequest, result: Result) -> Result:
        if not isinstance(result, ToolMessage) or result.status == "error":
            return result
        can_keep = result.artifact is None or isinstance(result.artifact, dict)
        context = self.context if can_keep else self.without_recall
        asked = [m for m in _messages(request) if m.type == "human"]
        call = AIMessage("", tool_calls=[request.tool_call])
        try:
            shown = context([*asked, call, result], Decisions()).messages[-1]
        except Exception as error:  # a builder may raise anything, and the result is there
            problem = " ".join(str(error).split())[:300] or type(error).__name__
            logging.getLogger("stategate").warning("a result stays whole: %s", problem)
            return result
        short, whole = text_of(shown), text_of(result)
        if short == whole:
            return result
        message: Any = with_text(result, short)
        if can_keep and context.settings.with_recall:
            artifact = {**(result.artifact or {}), _ORIGINAL: whole}
            message = message.model_copy(update={"artifact": artifact})
        return message  # type: ignore[no-any-return]


def shorten_results(
    tokens: int = 2000, kind: str = "compress", *, keep_original: bool = True, **parameters: Any
) -> ShortenedResults:
    """Return a ``wrap_tool_call`` that keeps what matters of a result of more than ``tokens``.

    What matters is decided by context kind ``kind`` from what was asked and called. With
    ``keep_original`` the whole result stays in the message's artifact, where ``recall`` finds it and no
    model reads it; without, checkpoints stay small. Results that a tool failed with are left alone.
    Tools that are awaited need ``awrap_tool_call=….awrap``, too.
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
