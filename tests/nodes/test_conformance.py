"""Plug-ins that break a rule: the test kit and the graph name them, and say which rule."""

from typing import Literal

import numpy as np
import pytest

from stategate.envs.protocols import Observation
from stategate.graph import Session, build_graph, load_config
from stategate.nodes import conformance
from stategate.nodes.conformance import check
from stategate.nodes.protocols import (
    ActorParams,
    ContextParams,
    Decision,
    EnvParams,
    MemoryParams,
    UpdaterParams,
)
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.stores.traces import Event

ACTIONS = ("ring the bell", "wait")


class Bell:
    """A world that inherits nothing, with one task."""

    name = "bell"

    def __init__(self, **fault):
        self.fault = fault

    def reset(self, task):
        session = {"n": 0, **self.fault.get("session", {})}
        return session, self.observe(session)

    def step(self, session, action):
        if "step" in self.fault:
            return self.fault["step"]
        after = {**session, "n": session["n"] + 1}
        return after, self.observe(after)

    def observe(self, session):
        done = session["n"] >= 2
        page = {"text": f"It rang {session['n']} times.", "reward": 1.0 * done, **self.fault}
        return Observation(page["text"], () if done else ACTIONS, page["reward"], done)

    def instruction(self, session):
        return self.fault.get("instruction", "Ring the bell.")


@pytest.fixture
def install(monkeypatch):
    """Return what registers the kind ``odd`` of a slot, which builds a given node."""
    conformance._first_pages.cache_clear()
    yield lambda base, node: _install(monkeypatch, base, node)
    conformance._first_pages.cache_clear()


def _install(monkeypatch, base, node):
    class Odd(base):
        kind: Literal["odd"] = "odd"

        def build(self, resources):
            return node

    monkeypatch.setitem(registry().slots[base.slot], "odd", Odd)
    return Odd()


def agent(**slots):
    plain = {"env": "odd", "embedder": "hashing", "actor": "explore", "memory": ["short_term"]}
    return build_graph(load_config({**plain, **slots}))


def play(graph, task=None):
    return graph.invoke({"task": task or {}}, config={"configurable": {"thread_id": "t"}})


def test_a_world_that_inherits_nothing_and_has_one_task_is_checked_and_played(install):
    check(install(EnvParams, Bell()))
    assert play(agent())["reward"] == 1.0
    assert Session(agent(), "s", task={}).run()[-1].reward == 1.0
    with pytest.raises(UserError, match=r'give a task: \{"task": \{\}\}'):
        agent().invoke({"task": None}, config={"configurable": {"thread_id": "t"}})
    with pytest.raises(UserError, match=r"no task yet: session.start\(\{\}\)"):
        Session(agent(), "u").step()


def test_one_broken_world_does_not_fail_the_check_of_other_kinds(install):
    install(EnvParams, Bell(step=None))
    check(registry().parse("context", "full"))


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"step": None}, "it returned None, not a session"),
        ({"step": {"n": 1}}, "it returned .*, not a session"),
        ({"text": None}, "its page holds None, not a str"),
        ({"reward": float("nan")}, "its reward is nan, not a finite number"),
        ({"instruction": None}, "its instruction is None, not a str"),
    ],
)
def test_what_a_world_returns_wrongly_is_named(install, fault, why):
    params = install(EnvParams, Bell(**fault))
    for run in (lambda: check(params), lambda: play(agent())):
        with pytest.raises(UserError, match=f"env odd: {why}"):
            run()


@pytest.mark.parametrize("held", [{1}, (1, 2), {1: 2}, np.int64(1)])
def test_a_session_that_a_checkpoint_would_change_is_refused(install, held):
    with pytest.raises(AssertionError, match="does not survive JSON"):
        check(install(EnvParams, Bell(session={"held": held})))


@pytest.mark.parametrize(
    ("base", "returned"),
    [
        (ContextParams, "a prompt"),
        (ContextParams, None),
        (ActorParams, "search[lamp]"),
        (ActorParams, Decision(3)),
        (MemoryParams, ["an event"]),
        (MemoryParams, [{"kind": "OBS"}]),
        (MemoryParams, True),
    ],
)
def test_what_a_node_returns_wrongly_is_named(install, base, returned):
    params = install(base, lambda *_: returned)
    slots = {base.slot: [params] if base is MemoryParams else params, "env": "webshop"}
    for run in (lambda: check(params), lambda: play(agent(**slots), {"goal": 3})):
        with pytest.raises(UserError, match=rf"{base.slot} odd: .* .*, not a "):
            run()


def test_a_node_that_raises_is_named(install):
    with pytest.raises(ZeroDivisionError) as raised:
        check(install(MemoryParams, lambda _: 1 / 0))
    assert raised.value.__notes__ == ["while checking memory odd"]


class Summary:
    """A state model whose states are all ``state``."""

    def __init__(self, state):
        self.state = state

    def initial(self):
        return np.zeros_like(self.state)

    def update(self, state, events):
        return self.state


@pytest.mark.parametrize("state", [np.full(4, 1e6), np.full(4, np.nan), np.ones((2, 2))])
def test_a_state_that_a_checkpoint_would_lose_is_refused(install, state):
    params = install(UpdaterParams, Summary(state.astype(np.float32)))
    slots = {"updater": params, "env": "webshop", "actor": "rule"}
    for run in (lambda: check(params), lambda: play(agent(**slots), {"goal": 3})):
        with pytest.raises(UserError, match="one row of numbers within ±65504"):
            run()


def test_numpy_s_numbers_are_kept_as_plain_ones(install):
    likely = {"wait": np.float32(0.5)}
    decision = Decision("wait", cost=np.float64(0.25), tokens_in=np.int64(3), probabilities=likely)
    install(EnvParams, Bell())
    out = play(agent(actor=install(ActorParams, lambda *_: decision)))
    assert (out["cost"], out["model_tokens"]) == (0.5, 6)


def test_writers_that_return_events_pass(install):
    check(install(MemoryParams, lambda record: [Event("ACT", record.decision.action, 0)]))
