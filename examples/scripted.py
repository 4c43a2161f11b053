"""A chat model that makes given calls, one after another, and then answers: examples without a key."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class Scripted(GenericFakeChatModel):
    """Takes tools and ignores them."""

    @classmethod
    def of(cls, calls: Sequence[tuple[str, dict[str, Any]]], answer: str) -> "Scripted":
        """Return a model that makes ``calls`` (tool, arguments) and then says ``answer``."""
        turns = [
            AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{i}"}])
            for i, (name, args) in enumerate(calls)
        ]
        return cls(messages=iter([*turns, AIMessage(answer)]))

    def bind_tools(self, tools: Any, **extra: Any) -> Any:
        return self
