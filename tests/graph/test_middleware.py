"""The middleware in a real ``create_agent``: what one call reads changes, the user's state does not."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from graph.middleware import ContextMiddleware


class Recorder(BaseChatModel):
    """A fake model that asks for ``calls`` pages, then ends; it keeps every prompt that it read."""

    calls: int = 12
    prompts: list[list[BaseMessage]] = []
    tool: str = "read_page"

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def bind_tools(self, tools: Sequence[Any], **extra: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **extra: Any) -> ChatResult:
        self.prompts.append(list(messages))
        number = sum(isinstance(m, AIMessage) for m in messages)
        if number < self.calls:
            call = {"name": self.tool, "args": {"number": number}, "id": f"call_{number}"}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=reply)])


@tool
def read_page(number: int) -> str:
    """Return a page of the book."""
    lines = [f"Line {i} of page {number} says that item {number}-{i} is blue." for i in range(60)]
    return "\n".join(lines)


def agent_of(model: BaseChatModel, middleware: Sequence[Any], **extra: Any) -> Any:
    return create_agent(model, [read_page], middleware=list(middleware), **extra)


ASK = {"messages": [{"role": "user", "content": "Read the book. What colour is item 3-7?"}]}


def size_of(messages: Sequence[BaseMessage]) -> int:
    return sum(len(str(m.content)) for m in messages)


@pytest.mark.parametrize("kind", ["compress", "window", "full"])
def test_a_call_reads_less_and_the_state_keeps_everything(kind: str) -> None:
    model = Recorder()
    agent = agent_of(model, [ContextMiddleware(kind=kind, budget=4000)])
    out = agent.invoke(ASK)
    results = [m for m in out["messages"] if isinstance(m, ToolMessage)]
    assert len(results) == 12
    assert all(m.text == read_page.invoke({"number": i}) for i, m in enumerate(results))
    assert size_of(model.prompts[-1]) < 0.6 * size_of(out["messages"])
    assert "stategate" not in out  # private
