"""The middleware among what real agents have: other middleware, interrupts, subgraphs, odd messages."""

from typing import Any

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from stategate.graph.middleware import ContextMiddleware
from tests.graph.test_middleware import ASK, Recorder, agent_of, audits_of, messages_read, size_of

LONG = "\n".join(f"Line {i} says that item {i} is blue." for i in range(400))
THREAD: Any = {"configurable": {"thread_id": "t"}}


def call(name: str, id_: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id_}


# Among other middleware and in other graphs -------------------------------------------------------


def test_a_person_approves_edits_and_rejects_calls() -> None:
    model = Recorder(calls=4, prompts=[])
    asks: Any = HumanInTheLoopMiddleware(interrupt_on={"read_page": True})
    agent = agent_of(model, [ContextMiddleware(budget=1500), asks], checkpointer=InMemorySaver())
    agent.invoke(ASK, THREAD)
    edited = {"type": "edit", "edited_action": {"name": "read_page", "args": {"number": 9}}}
    for decision in ({"type": "approve"}, edited, {"type": "reject", "message": "no"}):
        out = agent.invoke(Command(resume={"decisions": [decision]}), THREAD)
    out = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert out["messages"][-1].text == "done"
    assert size_of(model.prompts[-1]) < 0.5 * size_of(out["messages"])
    assert any("no" in m.text for m in model.prompts[-1] if isinstance(m, ToolMessage))


def test_an_agent_as_a_subgraph_keeps_its_decisions() -> None:
    model = Recorder(calls=8, prompts=[])
    inner = agent_of(model, [ContextMiddleware(budget=2500)])
    builder = StateGraph(MessagesState)
    builder.add_node("agent", inner)
    builder.add_edge(START, "agent")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    events = [
        e
        for _, e in graph.stream(ASK, THREAD, stream_mode="custom", subgraphs=True)
        if e["type"] == "stategate.context"
    ]
    assert len(events) == 9
    assert all(not e["problem"] and not e["over_by"] for e in events)
    assert "stategate" not in graph.get_state(THREAD).values
    graph.invoke({"messages": [HumanMessage("And item 4-4?")]}, THREAD)
    assert size_of(model.prompts[-1]) < 0.6 * size_of(graph.get_state(THREAD).values["messages"])


def test_messages_that_are_removed_are_forgotten() -> None:
    model = Recorder(calls=9, prompts=[])
    agent = agent_of(model, [ContextMiddleware(budget=2000)], checkpointer=InMemorySaver())
    agent.invoke(ASK, THREAD)
    gone = agent.get_state(THREAD).values["messages"][1:15]
    agent.update_state(THREAD, {"messages": [RemoveMessage(m.id) for m in gone]})
    audits = audits_of(
        agent.stream({"messages": [HumanMessage("So?")]}, THREAD, stream_mode="custom")
    )
    assert not audits[-1]["problem"]
    kept = agent.checkpointer.get(THREAD)["channel_values"]["stategate"]
    assert not set(kept["frozen"]) & {m.id for m in gone}


# Odd messages -------------------------------------------------------------------------------------


def test_blocks_that_are_no_text_pass_untouched() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}
    file = {"type": "file", "base64": "B" * 4000, "mime_type": "application/pdf"}
    thinking = {"type": "thinking", "thinking": "Let me see.", "signature": "s" * 200}
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    made = {"type": "function_call", "id": "fc_1", "call_id": "c2", "name": "look"}
    made |= {"arguments": "{}"}
    messages: list[BaseMessage] = [
        HumanMessage([{"type": "text", "text": "What is it?"}, image, file], id="h"),
        AIMessage([thinking, use], tool_calls=[call("look", "c1", n=1)], id="a"),
        ToolMessage([{"type": "text", "text": LONG}, image], tool_call_id="c1", id="t"),
        AIMessage([reasoning, made], tool_calls=[call("look", "c2")], id="b"),
        ToolMessage(LONG, tool_call_id="c2", id="u"),
    ]
    before = [repr(m) for m in messages]
    shown = messages_read(messages, budget=8000, low_watermark=0.8, max_new_result=300)
    assert [repr(m) for m in messages] == before
    assert all(shown[i] is messages[i] for i in (0, 1, 3))
    assert [m.id for m in shown] == ["h", "a", "t", "b", "u"]
    short = shown[2]
    assert image in short.content
    assert len(short.text) < len(LONG) / 2


def test_calls_that_could_not_be_read_keep_their_results_too() -> None:
    broken: Any = [{"name": "look", "args": "{oops", "id": "x", "error": "no JSON"}]
    answered: list[BaseMessage] = [
        HumanMessage("Look."),
        AIMessage("", invalid_tool_calls=broken),
        ToolMessage("Error: arguments are no JSON", tool_call_id="x"),
        HumanMessage("And?"),
    ]
    assert [m.type for m in messages_read(answered)] == ["human", "ai", "tool", "human"]
    shown = messages_read([answered[0], AIMessage("I.", invalid_tool_calls=broken), answered[3]])
    assert [m.type for m in shown] == ["human", "ai", "human"]
    assert isinstance(shown[1], AIMessage)
    assert not shown[1].invalid_tool_calls  # providers refuse a call that nothing answers
