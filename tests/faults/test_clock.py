"""A clock that goes back, or a machine whose clock is behind: nothing is lost, nothing runs wild."""

import time

import numpy as np
import pytest
from langgraph.checkpoint.base import id as ids

from stategate.graph import Session, build_graph, load_config
from stategate.graph.checkpoints import open_saver, prune
from stategate.stores.bank.bank import Entry, Row
from stategate.stores.bank.search import StateBank
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.traces.store import TraceStore
from tests.kit import Passages, qa_settings

HOURS = 3600.0
TASK = {"goal": 3}


@pytest.fixture
def clock(monkeypatch):
    """Return a function that sets the clock off by some seconds, as another process finds it."""
    real, real_ns = time.time, time.time_ns
    off = [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + off[0])
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(off[0] * 1e9))

    def set_off(seconds):
        off[0] = seconds
        ids._last_v6_timestamp = None

    yield set_off
    ids._last_v6_timestamp = None


def settings(where, **more):
    return load_config({"actor": "rule", "memory": ["short_term"], "checkpoints": where, **more})


def test_an_episode_goes_on_from_its_last_step(where, clock, tmp_path):
    traces = [{"kind": "short_term"}, {"kind": "trace", "path": str(tmp_path / "t.sqlite")}]
    straight = Session(build_graph(settings(None)), "t", TASK)
    straight.run()
    session, steps = Session(build_graph(settings(where, memory=traces)), "t", TASK), 0
    session.step()
    while not session.done:
        steps += 1
        clock(-HOURS * steps)  # each step in another process, an hour earlier
        session = Session(build_graph(settings(where, memory=traces)), "t")
        assert session.values["steps"] == steps
        session.step()
    steps += 1
    for key in ("reward", "steps", "tokens", "action"):
        assert session.values[key] == straight.values[key]
    events = TraceStore(tmp_path / "t.sqlite").events(session.values["episode_id"])
    assert [event.t for event in events if event.kind == "ACT"] == list(range(steps))
    clock(-HOURS * 100)
    back = Session(build_graph(settings(where, memory=traces)), "t").back(2)
    assert back.values["steps"] == steps - 2
    clock(-HOURS * 200)
    assert Session(build_graph(settings(where, memory=traces)), "t").values["steps"] == steps - 2


def test_pruning_keeps_the_last_step_and_what_was_written_later_than_now(where, clock):
    session = Session(build_graph(settings(where)), "t", TASK)
    session.step()
    clock(-HOURS)
    session = Session(build_graph(settings(where)), "t")
    session.step()
    saver = open_saver(where)
    clock(-1000 * HOURS)
    assert prune(saver, older_than=60.0)[1] == 0
    assert len(list(saver.list(None))) == 1
    again = Session(build_graph(settings(where)), "t")
    assert again.values["steps"] == 2
    assert again.step().step == 2
    clock(HOURS)
    assert prune(saver, older_than=60.0)[1] == 1


def test_what_is_said_last_holds(tmp_path, clock, monkeypatch):
    from stategate.nodes.observe.qa import QaEnv

    monkeypatch.setattr(QaEnv, "source", lambda self, seen, _: Passages([], not seen.done))
    where = str(tmp_path / "m.sqlite")
    config = load_config(qa_settings("sample", where))
    graph = build_graph(config, checkpointer=open_saver("memory"))
    for hours, said in ((0, "I live in Oslo."), (-5, "I live in Bergen."), (-9, "I live in Rome.")):
        clock(hours * HOURS)
        Session(graph, "t", {"question": said}).step()
    memory = open_long_term(where)
    (mine,) = memory.namespaces()
    facts = memory.facts(mine)
    assert [fact.text for fact in facts if fact.valid_to is None] == ["I live in Rome."]
    assert len(facts) == 3


def test_experience_written_later_than_now_is_used_and_kept(tmp_path, clock):
    from stategate.nodes.experience.grow import prune as prune_bank

    def entry(name):
        row = Row(name, name, 5.0, {"move": "go", "action": "a", "by": "return", "steps": 1})
        return Entry(row, np.eye(8, dtype=np.float32)[0])

    bank = StateBank(tmp_path / "bank", "h/8", create=True)
    bank.bank.add([entry("now")])
    clock(-HOURS)
    again = StateBank(tmp_path / "bank", "h/8")
    again.bank.add([entry("earlier")])
    assert len(again.search(np.eye(8, dtype=np.float32)[0], 4)) == 2
    prune_bank(again.bank, 2, clock=time.time)
    assert len(again.bank.rows()) == 2
