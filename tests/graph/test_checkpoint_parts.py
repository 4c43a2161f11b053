"""Checkpoints write what changed: small, whole after pruning, and old files open as before."""

import itertools
import sqlite3

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from stategate.graph import Session, build_graph, load_config
from stategate.graph.checkpoint_parts import SCHEMA, Parts, PartsSerde
from stategate.graph.checkpoints import open_saver
from stategate.graph.retention import prune, threads
from stategate.stores.errors import UserError
from tests.graph.test_graph import TASK, scripted, thread


def test_a_step_of_a_long_episode_is_under_twelve_kilobytes_and_does_not_grow(tmp_path):
    where = tmp_path / "c.sqlite"
    actions = [f"search[lamp {i}]" if i % 5 == 0 else "click[next >]" for i in range(100)]
    graph = build_graph(scripted(*actions, checkpoints=str(where), max_steps=100))
    session = Session(graph, "3f2a91c4-7b1e-4b3a-9f60-5d4c3b2a1908", TASK["task"])
    sizes = []
    while not session.done:
        session.step()
        sizes.append(sum(t.size for t in threads(graph.checkpointer)))
    per_step = [b - a for a, b in itertools.pairwise(sizes)]
    assert len(sizes) == 100
    assert max(per_step) < 6_000  # what is written, without the database's own pages
    assert sum(per_step[80:]) < 1.5 * sum(per_step[40:60])
    graph.checkpointer.conn.execute("pragma wal_checkpoint(truncate)")
    assert where.stat().st_size / 100 < 12_000


def test_every_earlier_state_is_read_back_as_it_was(tmp_path):
    settings = {"actor": "rule", "memory": ["short_term"], "updater": "none"}
    kept = build_graph(load_config({**settings, "checkpoints": str(tmp_path / "c.sqlite")}))
    plain = build_graph(load_config(settings))
    for graph in (kept, plain):
        graph.invoke(TASK, {"configurable": {"thread_id": "t", "episode_id": "e"}})
    histories = [list(graph.get_state_history(thread("t"))) for graph in (kept, plain)]
    assert len(histories[0]) > 10
    assert [s.values for s in histories[0]] == [s.values for s in histories[1]]
    assert [s.next for s in histories[0]] == [s.next for s in histories[1]]


def test_checkpoints_of_langgraphs_own_saver_are_gone_on_with(tmp_path):
    path = tmp_path / "old.sqlite"
    config = scripted("search[lamp]", "click[next >]", "click[< prev]", max_steps=3)
    with SqliteSaver.from_conn_string(str(path)) as old:
        session = Session(build_graph(config, checkpointer=old), "t", TASK["task"])
        session.step()
        before = session.values
    now = Session(build_graph(config, checkpointer=open_saver(str(path))), "t")
    assert now.values == before
    assert [result.decision.action for result in now.run()] == ["click[next >]", "click[< prev]"]
    assert now.back(3).values["steps"] == 0


def test_pruning_takes_parts_that_nothing_needs_and_leaves_the_rest(tmp_path):
    where = str(tmp_path / "c.sqlite")
    graph = build_graph(scripted(*["search[lamp]"] * 30, checkpoints=where, max_steps=30))
    for name in ("a", "b"):
        graph.invoke(TASK, thread(name))
    db = graph.checkpointer.conn
    count = "select count(*) from parts where thread_id = ?"
    whole = {name: db.execute(count, (name,)).fetchone()[0] for name in ("a", "b")}
    values = graph.get_state(thread("a")).values
    prune(graph.checkpointer, 1, None, ["a"])
    assert db.execute(count, ("a",)).fetchone()[0] < whole["a"] / 2
    assert db.execute(count, ("b",)).fetchone()[0] == whole["b"]
    assert graph.get_state(thread("a")).values == values
    graph.checkpointer.delete_thread("a")
    assert db.execute(count, ("a",)).fetchone()[0] == 0
    assert graph.get_state(thread("b")).values["steps"] == 30


def test_a_lost_part_is_one_clear_line(tmp_path):
    where = str(tmp_path / "c.sqlite")
    graph = build_graph(load_config({"actor": "rule", "memory": [], "checkpoints": where}))
    graph.invoke(TASK, thread("t"))
    graph.checkpointer.conn.execute("delete from parts where id > 3")
    graph.checkpointer.conn.commit()
    with pytest.raises(UserError, match="not whole") as error:
        graph.get_state(thread("t"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "x" * 1000,
        [],
        [["a", i, "b" * 30] for i in range(40)],
        {"k": ["v" * 80] * 20},
        {1: "int key", "deep": {"er": [{"est": "y" * 700}] * 3}},
        b"z" * 100,
        2.5,
    ],
)
def test_any_value_comes_back_equal_and_twice_the_same_costs_nothing(value):
    db = sqlite3.connect(":memory:")
    db.executescript(SCHEMA)
    parts = Parts(db, PartsSerde(allowed_msgpack_modules=None), "t")
    child = parts.keep(value)
    rows = db.execute("select count(*) from parts").fetchone()
    assert parts.keep(value) == child
    assert db.execute("select count(*) from parts").fetchone() == rows
    back = Parts(db, PartsSerde(allowed_msgpack_modules=None), "t").get(child)
    assert back == value
    assert type(back) is type(value)
