"""What anyone's agent may count on: nothing goes silently, everything comes back, nothing is huge."""

import time
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from examples.scripted import Scripted
from stategate.graph.middleware import ContextMiddleware, recalled
from stategate.stores.errors import UserError
from stategate.stores.tokens import count_tokens
from tests.graph.test_middleware import ASK, Recorder, agent_of, messages_read, read_page

WORDS = " ".join(f"word{i}" for i in range(300))


def working_thread(calls: int = 60) -> list[BaseMessage]:
    """Return a short request, many calls with long results, and a short last word."""
    messages: list[BaseMessage] = [
        HumanMessage("Hello.", id="hello"),
        AIMessage("Hello, what can I do?", id="hi"),
        HumanMessage("Book the cheapest flight from Porto to Graz on the ninth.", id="request"),
    ]
    for number in range(calls):
        call = {"name": "look", "args": {"n": number}, "id": f"c{number}"}
        messages.append(AIMessage("", tool_calls=[call], id=f"a{number}"))
        messages.append(
            ToolMessage(f"{number}: {WORDS}", tool_call_id=f"c{number}", id=f"t{number}")
        )
    return [*messages, AIMessage("A window seat?", id="q"), HumanMessage("Yes, please.", id="last")]


@pytest.mark.parametrize("budget", [4000, 2000, 1000])
def test_the_request_that_started_the_work_never_goes(budget: int) -> None:
    shown = messages_read(working_thread(), budget=budget)
    ids = [message.id for message in shown]
    assert {"request", "last"} <= set(ids)
    assert any("left out" in message.text for message in shown)


def test_what_is_left_out_is_found_by_recall() -> None:
    turns: list[BaseMessage] = [
        (HumanMessage if i % 2 == 0 else AIMessage)(f"Turn {i}: colour {i}. {WORDS}", id=f"m{i}")
        for i in range(41)
    ]
    preview = ContextMiddleware(budget=3000).preview(turns)
    gone = [row for row in preview.audit.rows if row.fate == "left out"]
    assert gone
    assert "Turn 12" in recalled(next(r.name for r in gone if r.key == "m12"), turns, 2000)
    assert "colour 8" in recalled("colour 8", turns, 2000)


def test_a_pinned_message_stays_whole() -> None:
    messages = working_thread()
    pins: list[Any] = [{"t3"}, lambda message: message.id == "t3"]
    for pin in pins:
        assert messages[10] in messages_read(messages, budget=3000, pin=pin)
    marked = messages[10].model_copy(update={"additional_kwargs": {"stategate_pin": True}})
    assert marked in messages_read([*messages[:10], marked, *messages[11:]], budget=3000)


def test_a_message_is_restored_by_its_name() -> None:
    memory = ContextMiddleware(budget=2000)
    agent = agent_of(Recorder(calls=9), [memory], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke(ASK, config)
    state = dict(agent.checkpointer.get(config)["channel_values"])
    shown = memory.hook(state)["llm_input_messages"]
    cut = next(m for m in shown if isinstance(m, ToolMessage) and "[cut" in m.text)
    name = cut.text.rpartition(" ")[2].rstrip("]")
    again = memory.hook(state | memory.restore(state, name))["llm_input_messages"]
    whole = next(m for m in state["messages"] if m.id == cut.id)
    assert whole in again
    with pytest.raises(UserError):
        memory.restore(state, "nobody")


def test_a_huge_result_costs_little_and_never_reaches_the_model_whole() -> None:
    line = '{"id": %d, "text": "plain words of no use at all", "amount": 12.5}\n'
    huge = "".join(line % i for i in range(75_000))
    assert len(huge) > 5_000_000
    call = {"name": "look", "args": {}, "id": "c"}
    messages = [
        HumanMessage("Go."),
        AIMessage("", tool_calls=[call]),
        ToolMessage(huge, tool_call_id="c"),
    ]
    messages_read(messages[:1])  # what is loaded once
    for keep in ([], ["look"]):
        started = time.process_time()
        shown = messages_read(messages, budget=8000, keep_whole=keep)
        assert time.process_time() - started < 3
        assert count_tokens(shown[-1].text) < 8000


def test_tools_that_eat_the_budget_leave_the_task_and_some_results() -> None:
    system = SystemMessage("tool schema " * 3000)
    shown = ContextMiddleware(budget=4000).preview(working_thread(20), system).messages
    assert {"request", "last"} <= {message.id for message in shown}
    assert count_tokens("\n".join(m.text for m in shown if isinstance(m, ToolMessage))) > 100


def test_a_tool_of_the_agents_own_named_recall_is_not_replaced() -> None:
    called: list[str] = []

    @tool
    def recall(id: str) -> str:
        """Recall a product from its buyers."""
        called.append(id)
        return "recalled"

    model = Scripted.of([("read_page", {"number": 1}), ("recall", {"id": "p1"})], "done")
    agent = create_agent(model, [recall, read_page], middleware=[ContextMiddleware(budget=2000)])
    out = agent.invoke({"messages": [HumanMessage("Recall p1.")]})
    assert called == ["p1"]
    assert out["messages"][-1].text == "done"


def test_an_agent_without_tools_works_with_a_model_that_takes_none() -> None:
    agent = create_agent(
        FakeListChatModel(responses=["fine"]), [], middleware=[ContextMiddleware()]
    )
    assert agent.invoke({"messages": [HumanMessage("How are you?")]})["messages"][-1].text == "fine"


def test_what_stands_beside_a_text_stays_with_it() -> None:
    block = {"type": "text", "text": WORDS * 9, "cache_control": {"type": "ephemeral"}}
    call = {"name": "look", "args": {}, "id": "c"}
    result = ToolMessage([block], tool_call_id="c")
    shown = messages_read(
        [HumanMessage("Go."), AIMessage("", tool_calls=[call]), result], budget=900
    )
    content: Any = shown[-1].content
    assert content[-1]["cache_control"] == {"type": "ephemeral"}
    assert len(content[-1]["text"]) < len(WORDS * 9)
