"""The graph as LangGraph users call it, on the sample catalogue."""

import asyncio

import pytest
from langgraph.types import Command

from stategate.envs.webshop import WebShop
from stategate.graph import build_graph, load_config
from stategate.stores.errors import UserError

TASK = {"task": {"env": "webshop", "goal": 3}}


def thread(name="t"):
    return {"configurable": {"thread_id": name}}


def config(*overrides, traces="", **values):
    base = {"actor": "rule", "memory": ["short_term"], **values}
    return load_config(base, overrides)


def buys_goal(goal=3):
    """Return the actions of someone who knows what to buy."""
    shop = WebShop.load("sample")
    wanted = shop.goals[goal]
    title = shop.products[wanted["asin"]]["name"]
    clicks = [f"click[{value.lower()}]" for value in wanted["goal_options"].values()]
    return [f"search[{title}]", f"click[{wanted['asin'].lower()}]", *clicks, "click[buy now]"]


def scripted(*actions, **values):
    return config(actor={"kind": "scripted", "actions": list(actions)}, **values)


def test_invoke_plays_an_episode_and_returns_its_figures():
    actions = buys_goal()
    out = build_graph(scripted(*actions)).invoke(TASK, config=thread())
    assert out["reward"] == 1.0
    assert out["done"] is True
    assert out["steps"] == len(actions)
    assert out["tokens"] > 50
    assert out["info"]["reward"]["r_type"] == 1.0


def test_ainvoke_astream_and_stream_agree_with_invoke():
    graph = build_graph(config())
    plain = graph.invoke(TASK, config=thread("a"))

    async def both():
        out = await graph.ainvoke(TASK, config=thread("b"))
        seen = [chunk async for chunk in graph.astream(TASK, thread("c"), stream_mode="values")]
        return out, seen[-1]

    out, last = asyncio.run(both())
    streamed = list(graph.stream(TASK, thread("d"), stream_mode="values"))[-1]
    for other in (out, last, streamed):
        assert all(other[key] == plain[key] for key in plain if key != "episode_id")


def test_one_call_may_swap_the_context_builder():
    graph = build_graph(config())
    with_full = graph.invoke(TASK, config=thread("a"))
    small = {"context": {"kind": "full", "budget": 90}}
    swapped = graph.invoke(TASK, config=thread("b"), context=small)
    again = graph.invoke(TASK, config=thread("c"))
    assert swapped["tokens"] / swapped["steps"] <= 90
    assert again["tokens"] == with_full["tokens"]
    with pytest.raises(Exception, match="no_such_kind"):
        graph.invoke(TASK, config=thread("d"), context={"context": {"kind": "no_such_kind"}})


def test_a_new_task_on_a_used_thread_starts_over():
    graph = build_graph(scripted("search[lamp]", max_steps=1))
    first = graph.invoke(TASK, config=thread())
    second = graph.invoke({"task": {"goal": 4}}, config=thread())
    assert (first["steps"], second["steps"]) == (1, 1)
    assert first["episode_id"] != second["episode_id"]


def test_the_step_cap_ends_an_episode_however_long():
    graph = build_graph(scripted("search[lamp]", *["click[next >]"] * 99, max_steps=60))
    out = graph.invoke(TASK, config=thread())
    assert (out["steps"], out["done"]) == (60, False)
    assert graph.invoke(None, config=thread())["steps"] == 60


def test_a_step_is_drawn_once(monkeypatch):
    drawn = []
    real = WebShop.observe
    monkeypatch.setattr(WebShop, "observe", lambda *given: drawn.append(1) or real(*given))
    out = build_graph(config()).invoke(TASK, config=thread())
    assert out["done"]
    assert len(drawn) <= 1 + out["steps"]  # reset and each step


@pytest.mark.parametrize("is_async", [False, True])
def test_a_person_answers_through_langgraphs_interrupt(is_async):
    graph = build_graph(config(actor="human", max_steps=2))

    def invoke(entry):
        if is_async:
            return asyncio.run(graph.ainvoke(entry, thread()))
        return graph.invoke(entry, thread())

    asked = invoke(TASK)["__interrupt__"][0].value
    assert asked["actions"] == ["search[<query>]"]
    asked = invoke(Command(resume="search[lamp]"))["__interrupt__"][0].value
    assert invoke(Command(resume=asked["actions"][-1]))["steps"] == 2


@pytest.mark.parametrize(
    "task", [{"goal": 10**6}, {"goal": -1}, {"goal": "three"}, {"env": "qa"}, {}]
)
def test_a_wrong_task_is_a_clear_error(task):
    with pytest.raises(UserError):
        build_graph(config()).invoke({"task": task}, config=thread())


def test_an_illegal_action_changes_nothing_and_is_counted():
    graph = build_graph(scripted("click[nowhere]", "search[lamp]", max_steps=2))
    out = graph.invoke(TASK, config=thread())
    assert (out["steps"], out["fallbacks"]) == (2, 1)


@pytest.mark.parametrize("slot", ["updater", "actor"])
def test_weights_that_are_not_there_are_refused_when_the_agent_is_built(slot):
    kind = {"updater": "gru", "actor": "policy"}[slot]
    with pytest.raises(UserError, match="no checkpoint 'gone'"):
        build_graph({"actor": "rule", slot: {"kind": kind, "checkpoint": "gone"}})
