"""The graph as LangGraph users call it, and sessions: step, run, back, fork, act."""

import asyncio
from dataclasses import replace

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from stategate.envs.webshop import WebShop
from stategate.graph import Session, build_graph, load_config
from stategate.stores.errors import UserError

TASK = {"task": {"env": "webshop", "goal": 3}}


def thread(name="t"):
    return {"configurable": {"thread_id": name}}


def config(**values):
    return load_config({"actor": "rule", "memory": ["short_term"], **values})


def buys_goal(goal=3):
    """Return the actions of someone who knows what to buy."""
    shop = WebShop.load("sample")
    wanted = shop.goals[goal]
    title = shop.products[wanted["asin"]].name
    clicks = [f"click[{value.lower()}]" for value in wanted["goal_options"].values()]
    return [f"search[{title}]", f"click[{wanted['asin'].lower()}]", *clicks, "click[buy now]"]


def scripted(*actions, **values):
    return config(actor={"kind": "scripted", "actions": list(actions)}, **values)


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


def test_a_call_s_context_takes_what_a_config_takes_and_refuses_in_the_same_words():
    graph = build_graph(config())
    before = graph.invoke(TASK, config=thread("before"))["tokens"]
    short = {"context": "window", "memory": "short_term"}
    long = {"context": {"kind": "window"}, "memory": [{"kind": "short_term"}]}
    swapped = {
        graph.invoke(TASK, thread(f"t{number}"), context=same)["tokens"]
        for number, same in enumerate((short, long, {"kind": "window"}))
    }
    assert len(swapped) == 1
    assert graph.invoke(TASK, thread("after"))["tokens"] == before not in swapped
    typo = {"context": "windo"}
    with pytest.raises(UserError, match="did you mean 'window'"):
        asyncio.run(graph.ainvoke(TASK, config=thread("c"), context=typo))
    with pytest.raises(UserError, match="no slot 'contxt'"):
        graph.invoke(TASK, config=thread("c"), context={"contxt": "window"})


def test_a_larger_step_cap_goes_on_where_a_smaller_one_ended():
    kept = InMemorySaver()
    assert len(session(scripted(*buys_goal(), max_steps=2), kept).run()) == 2
    here = Session(build_graph(scripted(*buys_goal()), kept), "t")
    assert here.step().step == 2
    assert here.run()[-1].reward == 1.0
    assert len(here.moments()) == here.values["steps"]


def test_the_step_cap_ends_an_episode_however_long():
    graph = build_graph(scripted("search[lamp]", *["click[next >]"] * 99, max_steps=60))
    out = graph.invoke(TASK, config=thread())
    assert (out["steps"], out["done"]) == (60, False)
    assert graph.invoke(None, config=thread())["steps"] == 60


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


@pytest.mark.parametrize(
    "slots",
    [
        {"updater": {"kind": "gru", "checkpoint": "gone"}},
        {"context": {"kind": "experience", "inner": {"kind": "retrieve", "checkpoint": "gone"}}},
    ],
)
def test_weights_that_are_not_there_are_refused_when_the_agent_is_built(slots):
    with pytest.raises(UserError, match="no checkpoint 'gone'"):
        build_graph({"actor": "rule", **slots})


def session(settings=None, checkpointer=None, **kw):
    graph = build_graph(settings or config(), checkpointer=checkpointer)
    return Session(graph, "t", task=TASK["task"], **kw)


def test_step_tells_what_was_read_and_done():
    here = session(scripted(*buys_goal()))
    first = here.step()
    assert first.step == 0
    assert first.decision.action.startswith("search[")
    assert first.context.actions == ("search[<query>]",)
    assert first.outcome.text != first.observation.text
    last = here.run()[-1]
    assert (last.done, last.reward, here.done) == (True, 1.0, True)
    out = build_graph(scripted(*buys_goal())).invoke(TASK, config=thread())
    assert (here.values["reward"], here.values["tokens"]) == (out["reward"], out["tokens"])
    with pytest.raises(UserError, match="over"):
        here.step()


def test_back_undoes_steps_and_the_same_actor_redoes_them():
    here = session()
    steps = here.run()
    here.back(2)
    assert here.values["steps"] == len(steps) - 2
    assert here.observation == steps[-2].observation
    redone = here.run()
    assert [s.decision.action for s in redone] == [s.decision.action for s in steps[-2:]]
    here.back(len(steps))
    assert here.values["steps"] == 0
    assert [s.decision.action for s in here.run()] == [s.decision.action for s in steps]
    here.back(2).act("click[back to search]")
    assert here.last().decision.action == "click[back to search]"
    assert len(here.moments()) == len(steps)  # without what was undone
    with pytest.raises(UserError, match="cannot go back"):
        here.back(99)


def test_fork_goes_on_with_other_nodes_and_leaves_the_original_alone():
    here = session()
    here.step()
    before = dict(here.values)
    branch = here.fork(context={"kind": "full", "budget": 80})
    there = branch.run()
    assert all(step.tokens <= 80 for step in there)
    assert dict(here.values) == before
    assert there[0].step == 1
    assert here.step().tokens > 80
    assert here.use({"kind": "full", "budget": 80}).step().tokens <= 80


def test_an_earlier_step_is_looked_at_forked_and_replayed():
    here = session()
    steps = here.run()
    before = dict(here.values)
    seen = here.look(step=1)
    assert (seen.context.text, seen.decision) == (steps[1].context.text, steps[1].decision)
    assert here.look({"kind": "full", "budget": 60}, step=1, act=False).context.tokens <= 60
    assert dict(here.values) == before
    assert here.last() == replace(steps[-1], seconds=0.0)
    again = [here.look(step=step.step) for step in steps]
    assert [s.context.text for s in again] == [s.context.text for s in steps]
    read = [len(moment["events"]) for moment in here.moments()]
    assert read == sorted(read)
    branch = here.fork(step=2)
    assert [state["steps"] for state in branch.moments()] == [0, 1, 2]
    assert branch.last().decision == steps[1].decision
    assert branch.run()[-1].reward == steps[-1].reward
    branch.back(len(steps))
    assert branch.values["steps"] == 0
    assert dict(here.values) == before
    for step in (99, -1):
        with pytest.raises(UserError, match=f"no step {step}: {len(steps)} were taken"):
            here.fork(step=step)


def test_a_persons_own_action_counts_as_a_step():
    here = session()
    taken = here.act("search[desk lamp]")
    assert (taken.step, taken.decision.reason) == (0, "a person's own action")
    assert here.values["steps"] == 1
    clicked = here.act(taken.outcome.actions[-1].upper())
    assert clicked.decision.action == taken.outcome.actions[-1]
    assert here.run()[-1].done


OWN_WORDS = r"put your own words into the brackets, as in search\[hello\]"


@pytest.mark.parametrize(
    "action", ["click[nowhere]", "buy", "", "search[]", "click[search]", "search[<query>]"]
)
def test_an_illegal_action_is_refused_and_costs_nothing(action):
    here = session()
    with pytest.raises(UserError, match=OWN_WORDS if "<" in action else "illegal action"):
        here.act(action)
    assert here.values["steps"] == 0


@pytest.mark.parametrize("returned", [None, "search[lamp]", ("search[lamp]", 1)])
def test_an_actor_that_decides_nothing_is_named_and_nothing_is_lost(monkeypatch, returned):
    monkeypatch.setattr("stategate.nodes.act.shop.rule.Rule.build", lambda *_: lambda *_: returned)
    here = session(checkpointer=(kept := InMemorySaver()))
    with pytest.raises(UserError, match=r"actor rule: it returned .*, not a Decision"):
        here.step()
    monkeypatch.undo()
    assert session(checkpointer=kept).step().step == 0


def test_step_after_an_interrupt_between_building_and_acting():
    graph = build_graph(config())
    graph.invoke(TASK, config=thread(), interrupt_before=["act"])
    pairs = zip(Session(graph, "t").run(), session().run(), strict=True)
    assert all((a.decision, a.context.text) == (b.decision, b.context.text) for a, b in pairs)


def test_no_task_and_no_checkpointer_are_clear_errors():
    with pytest.raises(UserError, match="no task"):
        Session(build_graph(config()), "t").step()
    with pytest.raises(UserError, match="checkpointer"):
        Session(build_graph(config(), checkpointer=False), "t")
