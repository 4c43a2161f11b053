"""A real ``kill -9`` of the process that answers, at every place between the answer and the write."""

import os
import signal

import pytest

from stategate.graph import build_graph, load_config
from stategate.stores.memory import long_term
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Namespace
from tests.graph.test_qa_agent import folder, settings  # noqa: F401 - fixtures
from tests.kit import run_processes

CONFIG = {"configurable": {"thread_id": "k"}}
MINE = Namespace("thread k")
QUESTION = "What is a brinicle?"


@pytest.fixture
def kept(settings, home, tmp_path):  # noqa: F811 - the agent of the other tests
    """Return a config as values; checkpoints and memory outlive the process."""
    return {**settings, "checkpoints": str(tmp_path / "checkpoints.sqlite")}


def _answer_and_die(kept, when):
    """Ask, and be killed before the write, within its transaction, or after it was committed."""

    def die(*_args, **_more):
        os.kill(os.getpid(), signal.SIGKILL)

    add, write = LongTerm.add, long_term.write_turn
    if when == "within":  # the turn, its fact and its statements are inserted, not committed
        long_term.write_turn = lambda *args: die(write(*args))
    elif when == "before":
        LongTerm.add = die
    else:
        LongTerm.add = lambda *args, **more: die(add(*args, **more))
    build_graph(load_config(kept)).invoke({"task": {"question": QUESTION}}, CONFIG)


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_kill_between_answer_and_write_loses_no_turn_and_writes_none_twice(kept, when):
    assert run_processes(_answer_and_die, [(kept, when)]) == [-signal.SIGKILL]
    memory = LongTerm(f"sqlite:///{kept['context']['memory']['place']['url']}")
    assert [len(fact.turns) for fact in memory.facts(MINE)] == [1] * (when == "after")
    graph = build_graph(load_config(kept))
    assert graph.get_state(CONFIG).next == ("write_memory",)
    out = graph.invoke(None, CONFIG)
    assert out["done"]
    (fact,) = memory.facts(MINE)
    assert (fact.question, fact.times, len(fact.turns)) == (QUESTION, 1, 1)
    assert [m.type for m in out["messages"]] == ["human", "ai"]
    assert len(graph.get_state(CONFIG).values["events"]) == 2
