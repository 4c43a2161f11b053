"""The middleware in a real ``create_agent``: what one call reads changes, the user's state does not."""

import asyncio
import itertools
import re
import time
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import Field

from stategate.graph.middleware import ContextMiddleware


class Recorder(BaseChatModel):
    """A fake model that asks for ``calls`` pages, then ends; it keeps every prompt that it read."""

    calls: int = 12
    prompts: list[list[BaseMessage]] = Field(default_factory=list)
    tool: str = "read_page"

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def bind_tools(self, tools: Sequence[Any], **extra: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **extra: Any) -> ChatResult:
        self.prompts.append(list(messages))
        # Counted by the last call that is shown: earlier ones may be left out.
        calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
        numbers = [call["args"]["number"] for call in calls if "number" in call["args"]]
        number = 1 + numbers[-1] if numbers else 0
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


def audits_of(events: Any) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == "stategate.context"]


def begins_with(later: Sequence[BaseMessage], earlier: Sequence[BaseMessage]) -> bool:
    """Say whether a prompt begins with the one before, byte for byte."""
    return [repr(m) for m in later[: len(earlier)]] == [repr(m) for m in earlier]


def messages_read(messages: Sequence[BaseMessage], **settings: Any) -> list[BaseMessage]:
    """Return what one call reads of ``messages``."""
    read: list[BaseMessage] = ContextMiddleware(**settings).hook({"messages": messages})[
        "llm_input_messages"
    ]
    return read


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


@pytest.mark.parametrize(
    "settings",
    [{"budget": 1200}, {"budget": 6000, "max_new_result": 3000, "need": ""}],
    ids=["by need", "by words"],
)
def test_what_was_shown_is_shown_again_until_a_cut(settings: dict[str, Any]) -> None:
    model = Recorder(calls=20, prompts=[])
    agent = agent_of(model, [ContextMiddleware(**settings)], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    audits = audits_of(agent.stream(ASK, config=config, stream_mode="custom"))
    assert [a["type"] for a in audits] == ["stategate.context"] * 21
    cuts = [a["is_cut"] for a in audits]
    assert 2 <= sum(cuts) <= 6
    pairs = itertools.pairwise(model.prompts)
    assert [not begins_with(after, before) for before, after in pairs] == cuts[1:]
    assert all(a["tokens_after"] <= settings["budget"] and not a["over_by"] for a in audits)


def test_decisions_survive_resume_and_forks() -> None:
    model = Recorder(calls=12, prompts=[])
    saver = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    agent_of(model, [ContextMiddleware(budget=4000)], checkpointer=saver).invoke(ASK, config)
    last = model.prompts[-1]
    agent = agent_of(model, [ContextMiddleware(budget=4000)], checkpointer=saver)  # a new process
    more = {"messages": [{"role": "user", "content": "And item 5-5?"}]}
    agent.invoke(more, config)
    assert begins_with(model.prompts[-1], last)
    states = agent.get_state_history(config)
    back = next(s for s in states if len(s.values.get("messages", ())) == 1 + 2 * 8)
    read = len(model.prompts)
    agent.invoke(None, back.config)  # go on from eight calls ago
    assert begins_with(model.prompts[read], model.prompts[8])


def _breaks(*request: Any) -> Any:
    raise RuntimeError("no such thing")


def _hangs(*request: Any) -> Any:
    time.sleep(1.0)


@pytest.mark.parametrize(
    ("builder", "says"), [(_breaks, "no such thing"), (_hangs, "within 0.2 s")]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_builder_that_fails_never_stops_the_agent(
    builder: Any, says: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Recorder(calls=4, prompts=[])
    middleware = ContextMiddleware(budget=1200, timeout=0.2)
    monkeypatch.setattr(middleware.context, "_chosen", builder)
    agent = agent_of(model, [middleware])

    async def run() -> list[Any]:
        return [event async for event in agent.astream(ASK, stream_mode="custom")]

    audits = asyncio.run(run()) if is_async else audits_of(agent.stream(ASK, stream_mode="custom"))
    assert len(model.prompts) == 5  # each call reached the model, once
    assert any(says in audit["problem"] for audit in audits)
    assert size_of(model.prompts[-1]) > 4 * 2000  # untouched


class Recaller(Recorder):
    """Reads pages until it sees a shortened result, recalls that, and ends."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **extra: Any) -> ChatResult:
        result = super()._generate(messages)
        notes = [n for m in messages for n in re.findall(r"recall (\w{5})\]", str(m.content))]
        is_done = any(isinstance(m, ToolMessage) and m.name == "recall" for m in messages)
        if notes or is_done:
            call = {"name": "recall", "args": {"id": notes[0]}, "id": "again"}
            reply = AIMessage("", tool_calls=[] if is_done else [call])
            return ChatResult(generations=[ChatGeneration(message=reply)])
        return result


def test_a_shortened_result_comes_back_whole() -> None:
    model = Recaller(calls=30, prompts=[])
    agent = agent_of(model, [ContextMiddleware(budget=4000, max_new_result=3000)])
    out = agent.invoke(ASK)
    back = next(m for m in out["messages"] if isinstance(m, ToolMessage) and m.name == "recall")
    assert back.text in [read_page.invoke({"number": i}) for i in range(30)]
    assert back in model.prompts[-1]  # and is shown whole


def test_as_a_hook_decisions_are_kept_where_the_state_has_room_for_them() -> None:
    class State(MessagesState):
        llm_input_messages: list[Any]
        stategate: dict[str, Any]

    model = Recorder(calls=24, prompts=[])
    memory = ContextMiddleware(budget=800, recall=False)
    builder = StateGraph(State)
    builder.add_node("shorten", memory.hook)
    builder.add_node("model", lambda s: {"messages": [model.invoke(s["llm_input_messages"])]})
    builder.add_node("tools", ToolNode([read_page]))
    builder.add_edge(START, "shorten")
    builder.add_edge("shorten", "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "shorten")
    out = builder.compile().invoke(ASK)
    assert out["stategate"]["cuts"] >= 2
    same = [begins_with(after, before) for before, after in itertools.pairwise(model.prompts)]
    assert sum(same) >= len(same) - out["stategate"]["cuts"]
