"""Checkpoints are listed and pruned on both savers; what is kept goes on as before."""

import time

import pytest

from stategate.graph import Session, build_graph, load_config
from stategate.graph.checkpoints import open_saver
from stategate.graph.retention import prune, threads
from stategate.stores.errors import UserError
from tests.graph.test_graph import TASK


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return str(tmp_path / "c.sqlite")


def test_a_pruned_thread_goes_on_to_the_same_end(where):
    graph = build_graph(
        load_config({"actor": "rule", "memory": ["short_term"], "checkpoints": where})
    )
    names = [f"keep-{time.time_ns()}-{i}" for i in range(2)]
    for name in names:
        session = Session(graph, name, TASK["task"])
        for _ in range(4):
            session.step()
    whole = Session(graph, names[0]).run()[-1]
    saver = open_saver(where)
    before = {t.thread_id: t for t in threads(saver)}
    assert before[names[1]].checkpoints > 10
    assert abs(before[names[1]].written - time.time()) < 60
    gone, _ = prune(saver, 1, None, [names[1]])
    assert gone == before[names[1]].checkpoints - 1
    after = {t.thread_id: t for t in threads(saver)}
    assert after[names[1]].checkpoints == 1
    assert after[names[1]].size < before[names[1]].size / 4
    assert after[names[0]] == before[names[0]]
    last = Session(graph, names[1]).run()[-1]
    assert (last.reward, last.step, last.decision.action) == (
        whole.reward,
        whole.step,
        whole.decision.action,
    )


def test_old_threads_go_whole(where):
    graph = build_graph(
        load_config({"actor": "rule", "memory": ["short_term"], "checkpoints": where})
    )
    name = f"old-{time.time_ns()}"
    graph.invoke(TASK, {"configurable": {"thread_id": name}})
    saver = open_saver(where)
    assert prune(saver, 99, 3600.0, [name]) == (0, 0)
    _, whole = prune(saver, 99, -1.0, [name])
    assert whole == 1
    assert name not in {t.thread_id for t in threads(saver)}


def test_checkpoints_in_memory_cannot_be_pruned():
    with pytest.raises(UserError, match="in memory"):
        threads(open_saver(None))
    with pytest.raises(UserError, match="--keep"):
        prune(open_saver(None), 0)
