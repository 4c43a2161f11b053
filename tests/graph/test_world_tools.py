"""Worlds as tools: any agent plays any world, and its thread resumes, forks and goes back with it."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from examples.scripted import Scripted
from stategate.graph.world_tools import standing, world_tools
from tests.ui.garden import SOURCE, WINNING

ASK = {"messages": [{"role": "user", "content": "Play."}]}


@pytest.fixture(scope="module")
def garden() -> Any:
    names: dict[str, Any] = {}
    exec(SOURCE, names)  # a stranger's world, that no code of ours knows
    return names["Garden"]()


def steps(*actions: str) -> list[tuple[str, dict[str, Any]]]:
    return [("step", {"action": action}) for action in actions]


def texts(out: Any) -> list[str]:
    return [m.text for m in out["messages"] if isinstance(m, ToolMessage)]


TASK = {"thing": "lantern", "room": "garden"}


def test_a_stranger_s_world_is_won_through_its_tools(garden: Any) -> None:
    model = Scripted.of([("reset", {}), *steps(*WINNING)], "done")
    agent: Any = create_agent(model, world_tools(garden, task=TASK))
    out = agent.invoke(ASK)
    first, *_, last = texts(out)
    assert "Task: Light the lantern in the garden." in first
    assert "- go cellar" in first
    assert "The task is over. Reward: 1" in last
    end = standing(out["messages"])
    assert end is not None
    assert (end.reward, end.done, end.steps) == (1.0, True, len(WINNING))


def test_the_agent_begins_any_task_by_its_number(garden: Any) -> None:
    calls = [("reset", {"task": 99}), ("reset", {"task": 2}), *steps("fly", "Go Cellar")]
    out = create_agent(Scripted.of(calls, "done"), world_tools(garden)).invoke(ASK)
    refused, begun, cannot, went = texts(out)
    assert "tasks are 0 to 5" in refused
    assert "cellar" in begun
    assert "'fly' cannot be done here" in cannot
    assert "You are in the cellar" in went  # case is forgiven
    out = create_agent(Scripted.of(steps("go cellar"), "done"), world_tools(garden)).invoke(ASK)
    assert "call reset first" in texts(out)[0]


def test_parallel_calls_are_taken_in_their_order(garden: Any) -> None:
    every = [("reset", {}), *steps(*WINNING)]
    calls = [{"name": n, "args": a, "id": f"c{i}"} for i, (n, a) in enumerate(every)]
    model = Scripted(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
    out: Any = create_agent(model, world_tools(garden, task=TASK)).invoke(ASK)
    end = standing(out["messages"])
    assert end is not None
    assert end.reward == 1.0
    assert "You are in the cellar" in texts(out)[1]


def test_threads_resume_fork_and_go_back_with_their_world(garden: Any) -> None:
    tools = world_tools(garden, task=TASK, name="house")
    every = [("house_reset", {}), *(("house_step", a) for _, a in steps(*WINNING))]
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "t"}}
    agent: Any = create_agent(Scripted.of(every[:3], "so far"), tools, checkpointer=saver)
    agent.invoke(ASK, config)
    agent: Any = create_agent(Scripted.of(every[3:], "done"), tools, checkpointer=saver)
    out = agent.invoke({"messages": [HumanMessage("Go on.")]}, config)
    end = standing(out["messages"], "house")
    assert end is not None
    assert end.done
    assert standing(out["messages"]) is None  # another world's tools
    early = next(s for s in agent.get_state_history(config) if len(texts(s.values)) == 2)
    model = Scripted.of([("house_step", {"action": "go garden"})], "elsewhere")
    other = create_agent(model, tools, checkpointer=saver).invoke(
        {"messages": [HumanMessage("Another way.")]}, early.config
    )
    assert "cannot be done here" in texts(other)[-1]  # back in the cellar


def test_free_words_may_have_an_argument_of_their_own() -> None:
    search = {"action": "search"}
    calls = [("reset", {}), ("step", search), ("step", {**search, "query": "red lamp"})]
    agent = create_agent(Scripted.of(calls, "done"), world_tools("webshop"))
    told = texts(agent.invoke(ASK))
    assert "'search' cannot be done here: write search[<query>]" in told[1]
    assert "Page 1" in told[2]
