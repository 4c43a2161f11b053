"""Sessions: step, run, back, fork, act."""

from dataclasses import replace

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from stategate.graph import Session, build_graph, load_config
from stategate.stores.errors import UserError
from tests.graph.test_graph import TASK, buys_goal, config, scripted, thread


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


def test_a_fork_of_a_moment_that_was_looked_at_has_every_step():
    here = session(scripted(*buys_goal()))
    here.look({"context": {"kind": "window"}})
    from_the_start = here.fork()
    here.step()
    here.look({"context": {"kind": "window"}})
    fork = here.fork()
    fork.run()
    assert [state["steps"] for state in fork.moments()] == list(range(fork.values["steps"]))
    assert fork.back(fork.values["steps"]).values["steps"] == 0
    assert from_the_start.run()[0].step == 0


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
    assert branch.values["steps"] == 2
    assert branch.last().decision == steps[1].decision
    assert branch.run()[-1].reward == steps[-1].reward
    branch.back(len(steps))
    assert branch.values["steps"] == 0
    assert dict(here.values) == before
    with pytest.raises(UserError, match="step 99 is gone"):
        here.fork(step=99)


def test_a_persons_own_action_counts_as_a_step():
    here = session()
    taken = here.act("search[desk lamp]")
    assert (taken.step, taken.decision.reason) == (0, "a person's own action")
    assert here.values["steps"] == 1
    clicked = here.act(taken.outcome.actions[-1].upper())
    assert clicked.decision.action == taken.outcome.actions[-1]
    assert here.run()[-1].done


@pytest.mark.parametrize("action", ["click[nowhere]", "buy", "", "search[]", "click[search]"])
def test_an_illegal_action_is_refused_and_costs_nothing(action):
    here = session()
    with pytest.raises(UserError, match="illegal action"):
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


def test_an_unusable_checkpoint_file_is_a_clear_error(tmp_path):
    broken = tmp_path / "c.sqlite"
    broken.write_text("this is not a database, whatever its name says" * 40)
    with pytest.raises(UserError, match="name another file"):
        build_graph(load_config({"actor": "rule", "checkpoints": str(broken)}))
