"""A real ``kill -9`` of the process that answers, at every place between the answer and the write."""

import multiprocessing
import os
import signal

import pytest

from stategate.graph import build_graph, load_config
from stategate.stores.memory import long_term
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Namespace

CONFIG = {"configurable": {"thread_id": "k"}}
MINE = Namespace("thread k")
QUESTION = "What is a brinicle?"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return a config as values; checkpoints and memory outlive the process."""
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.md").write_text("# Brinicle\n\nA brinicle is a tube of ice under Antarctica.")
    place = {"url": str(tmp_path / "memory.sqlite")}
    return {
        "env": {"kind": "qa", "corpus": str(folder), "chunking": "fixed-64-10"},
        "embedder": "hashing",
        "context": {"kind": "recall", "budget": 800, "memory": {"place": place}},
        "actor": {"kind": "extract", "sentences": 1},
        "memory": [{"kind": "conversation"}, {"kind": "long_term", "place": place}],
        "checkpoints": str(tmp_path / "checkpoints.sqlite"),
        "max_steps": 100,
    }


def _answer_and_die(settings, when):
    """Ask, and be killed before the write, within its transaction, or after it was committed."""

    def die(*_args, **_more):
        os.kill(os.getpid(), signal.SIGKILL)

    write = LongTerm.add
    if when == "within":  # the turn and its fact are inserted, its statements are not
        long_term.write_statements = die
    elif when == "before":
        LongTerm.add = die
    else:
        LongTerm.add = lambda *args, **more: die(write(*args, **more))
    build_graph(load_config(settings)).invoke({"task": {"question": QUESTION}}, CONFIG)


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_kill_between_answer_and_write_loses_no_turn_and_writes_none_twice(settings, when):
    from tests.graph.test_qa_kill import _answer_and_die  # a name that a spawned process can import

    spawn = multiprocessing.get_context("spawn")
    child = spawn.Process(target=_answer_and_die, args=(settings, when))
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    memory = LongTerm(f"sqlite:///{settings['context']['memory']['place']['url']}")
    assert len(memory.facts(MINE)) == len(memory.turns(MINE)) == (when == "after")
    graph = build_graph(load_config(settings))
    assert graph.get_state(CONFIG).next == ("write_memory",)
    out = graph.invoke(None, CONFIG)
    assert out["done"]
    (fact,) = memory.facts(MINE)
    assert (fact.question, fact.times, len(fact.turns)) == (QUESTION, 1, 1)
    assert [m.type for m in out["messages"]] == ["human", "ai"]
    assert len(graph.get_state(CONFIG).values["events"]) == 2
