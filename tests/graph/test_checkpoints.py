"""Checkpoints in memory, SQLite and a real PostgreSQL: resumed, locked, listed, pruned."""

import asyncio
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress

import ormsgpack
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from stategate.graph import Session, build_graph
from stategate.graph.checkpoints import Busy, open_saver, prune, thread_lock
from stategate.stores.errors import UserError
from tests.graph.test_graph import TASK, config, scripted, thread


def graph(where):
    return build_graph(config(checkpoints=where))


@pytest.mark.parametrize("place", ["memory", "sqlite", "postgres"])
def test_langgraph_s_own_conformance_suite_passes(place, tmp_path, request):
    pytest.importorskip("langgraph.checkpoint.conformance")
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    numbers = iter(range(1000))
    url = request.getfixturevalue("postgres") if place == "postgres" else None

    @checkpointer_test(name=f"stategate {place}")
    async def factory():
        named = {"memory": None, "sqlite": str(tmp_path / f"{next(numbers)}.sqlite")}
        yield open_saver(named.get(place, url))

    report = asyncio.run(validate(factory))
    failures = [f for result in report.results.values() for f in result.failures]
    assert report.passed_all_base(), failures
    assert failures == []
    assert sum(result.tests_passed for result in report.results.values()) > 40


def test_text_that_postgresql_refuses_is_kept_all_the_same(where):
    session = Session(graph(where), "nul", {"instruction": "find\0 a \ud83d lamp"})
    session.act("search[a\0b \ud800 c]")
    values = Session(graph(where), "nul").values
    assert values["episode"]["instruction"] == "find\ufffd a ? lamp"
    assert values["action"] == "search[a\ufffdb ? c]"


def test_two_runs_of_one_thread_take_turns_across_connections(where):
    graphs = [graph(where) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.invoke(TASK, thread("both")), graphs))
    assert graphs[0].get_state(thread("both")).values["episodes"] == 2


def test_many_threads_at_once_hold_one_connection(postgres):
    import psycopg

    saver, other = graph(postgres).checkpointer, graph(postgres).checkpointer
    with psycopg.connect(postgres, autocommit=True) as db, ExitStack() as held:
        count = "select count(*) from pg_stat_activity where datname = 'postgres'"
        before = db.execute(count).fetchone()[0]
        for i in range(40):
            held.enter_context(thread_lock(saver, f"many-{i}", 0.0))
        for one in (saver, other):
            with pytest.raises(Busy), thread_lock(one, "many-7", 0.0):
                pass
        assert db.execute(count).fetchone()[0] <= before + 4
    with thread_lock(other, "many-7", 0.0):
        pass


def test_a_server_that_was_restarted_is_found_again(postgres, postgres_server):
    here = Session(graph(postgres), "back", task=TASK["task"])
    here.step()
    postgres_server("restart")
    assert here.run()[-1].done


def counts_of(saver):
    """Return how many checkpoints each thread has."""
    return Counter(one.config["configurable"]["thread_id"] for one in saver.list(None))


def test_a_pruned_thread_goes_on_to_the_same_end(where):
    built = graph(where)
    for name in ("whole", "pruned", "running"):
        session = Session(built, name, TASK["task"])
        for _ in range(4):
            session.step()
    whole = Session(built, "whole").run()[-1]
    saver = open_saver(where)
    before = counts_of(saver)
    assert before["pruned"] > 10
    with built.alone(thread("running")):
        assert prune(saver, None, ["pruned", "running"]) == 0
    after = counts_of(saver)
    assert after["pruned"] == 1
    assert all(after[name] == before[name] for name in ("whole", "running"))
    last = Session(built, "pruned").run()[-1]
    assert (last.reward, last.step, last.decision) == (whole.reward, whole.step, whole.decision)
    assert prune(saver, 3600.0, ["whole"]) == 0
    assert prune(saver, -1.0, ["whole"]) == 1
    assert "whole" not in counts_of(saver)


def test_checkpoints_of_langgraphs_own_saver_are_gone_on_with(tmp_path):
    path = tmp_path / "theirs.sqlite"
    settled = scripted("search[lamp]", "click[next >]", "click[< prev]", max_steps=3)
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        session = Session(build_graph(settled, checkpointer=theirs), "t", TASK["task"])
        session.step()
        before = session.values
    now = Session(build_graph(settled, checkpointer=open_saver(str(path))), "t")
    assert now.values == before
    assert [result.decision.action for result in now.run()] == ["click[next >]", "click[< prev]"]
    assert now.back(3).values["steps"] == 0


@pytest.mark.parametrize("damage", ["foreign", "text", "torn"])
def test_a_file_that_is_no_database_of_checkpoints_is_named_and_stays(tmp_path, damage):
    path = tmp_path / "x.sqlite"
    if damage == "text":
        path.write_text("no database " * 99)
    elif damage == "foreign":
        with closing(sqlite3.connect(path)) as db:
            db.execute("create table customers (name text)")
    else:
        with closing(graph(str(path)).checkpointer.conn):
            pass
        path.write_bytes(path.read_bytes()[:4096] + b"\xff" * (path.stat().st_size - 4096))
    line = rf"cannot use the checkpoints '{path}' \(.*\): name another file"
    with pytest.raises(UserError, match=line) as told:
        prune(graph(str(path)).checkpointer)
    assert ("delete it" in str(told.value)) == (damage != "foreign")
    if damage == "foreign":
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("select name from sqlite_master").fetchall() == [("customers",)]


def _evil(path):
    """Return msgpack's extension 0 as LangGraph writes constructors: module, name, argument."""
    call = ormsgpack.packb(("os", "system", f"touch {path}"))
    return ormsgpack.packb(ormsgpack.Ext(0, call))


@pytest.mark.parametrize("place", ["checkpoint", "write"])
def test_a_checkpoint_runs_no_code(tmp_path, place):
    mark, path = tmp_path / "ran", tmp_path / "c.sqlite"
    graph(str(path)).invoke(TASK, thread())
    with sqlite3.connect(path) as db:
        if place == "checkpoint":
            db.execute("update checkpoints set checkpoint = ?, type = 'msgpack'", (_evil(mark),))
        else:
            db.execute(
                "insert into writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
                " type, value) select thread_id, checkpoint_ns, max(checkpoint_id), 'task', 0,"
                " 'action', 'msgpack', ? from checkpoints",
                (_evil(mark),),
            )
    with suppress(Exception):  # what the file leaves of a checkpoint may be none
        graph(str(path)).get_state(thread())
    assert not mark.exists()
