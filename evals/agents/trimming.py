"""``trim_messages`` as an arm: the newest messages that fit."""

from collections.abc import Iterable
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest
from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import trim_messages

from stategate.envs.messages.history import tokens_of
from stategate.stores.tokens import count_tokens


def sizes(messages: Iterable[Any]) -> int:
    """Return the tokens of messages together."""
    return sum(tokens_of(message, count_tokens) for message in messages)


class LastMessages(AgentMiddleware[Any, Any, Any]):
    """``trim_messages``: the instruction, and the newest messages that fit, never half a round."""

    def __init__(self, budget: int) -> None:
        super().__init__()
        self._budget = budget

    def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        """Trim what the call reads."""
        shown: Any = self.read(list(request.messages))
        return handler(request.override(messages=shown))

    def read(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        """Return what a call reads."""
        first, rest = messages[:1], messages[1:]
        room = self._budget - sizes(first)
        recent = trim_messages(
            rest, max_tokens=room, token_counter=sizes, strategy="last", start_on="ai"
        )
        if not recent and rest:
            recent = rest[-2:]  # a round that is too large alone
        return [*first, *recent]
