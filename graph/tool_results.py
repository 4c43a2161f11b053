"""One tool's results shortened before they enter a graph's state: a wrapper for ``ToolNode``.

ToolNode(tools, wrap_tool_call=shorten_results(2000))
"""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from envs.messages.history import text_of, with_text
from nodes.build_context.messages.context import HistoryContext
from nodes.build_context.messages.decisions import Decisions
from nodes.build_context.messages.slots import SHORTENED

Handler = Callable[[ToolCallRequest], "ToolMessage | Command[Any]"]


def shorten_results(
    tokens: int = 2000, kind: str = "compress", *, keep_original: bool = True, **parameters: Any
) -> Callable[[ToolCallRequest, Handler], "ToolMessage | Command[Any]"]:
    """Return a ``wrap_tool_call`` that keeps what matters of a result of more than ``tokens``.

    What matters is decided by context kind ``kind`` from what was asked and called. With
    ``keep_original`` the whole result stays in the message's artifact, where ``recall`` finds it and no
    model reads it; without, checkpoints stay small. Results that a tool failed with are left alone.
    """
    # The result is the only thing that may be cut, and the rest of the history is free.
    context = HistoryContext(
        kind, 10**9, fresh=tokens, tail=0, recall=keep_original, parameters=parameters
    )

    def wrap_tool_call(request: ToolCallRequest, handler: Handler) -> "ToolMessage | Command[Any]":
        result = handler(request)
        if not isinstance(result, ToolMessage) or result.status == "error":
            return result
        asked = [m for m in _messages(request) if m.type == "human"]
        call = AIMessage("", tool_calls=[request.tool_call])
        shown = context([*asked, call, result], Decisions()).messages[-1]
        short = text_of(shown)
        if short == text_of(result):
            return result
        told = {**result.response_metadata, SHORTENED: True}
        message = with_text(result, short).model_copy(update={"response_metadata": told})
        if keep_original and result.artifact is None:
            message = message.model_copy(
                update={"artifact": {"stategate_original": text_of(result)}}
            )
        return message  # type: ignore[return-value]

    return wrap_tool_call


def _messages(request: ToolCallRequest) -> list[BaseMessage]:
    state: Any = request.state
    if isinstance(state, list):
        return state
    messages = (
        state.get("messages") if isinstance(state, dict) else getattr(state, "messages", None)
    )
    return list(messages or [])
