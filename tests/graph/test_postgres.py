"""Checkpoints in a real PostgreSQL, started for the test."""

import asyncio

import pytest

from stategate.graph import Session, build_graph, load_config
from stategate.graph.retention import prune, threads
from stategate.stores.errors import UserError
from tests.graph.test_graph import TASK, thread


def graph(url):
    return build_graph(load_config({"actor": "rule", "memory": ["short_term"], "checkpoints": url}))


def test_an_episode_goes_on_in_another_process_of_the_same_database(postgres):
    here = Session(graph(postgres), "pg", task=TASK["task"])
    here.step()
    there = Session(graph(postgres), "pg")
    assert there.values["steps"] == 1
    assert there.run()[-1].done
    assert here.done


def test_async_calls_work_on_the_same_saver(postgres):
    built = graph(postgres)
    assert asyncio.run(built.ainvoke(TASK, thread("async")))["done"]
    assert built.get_state(thread("async")).values["done"]


def test_a_database_that_does_not_answer_is_one_clear_line():
    with pytest.raises(UserError, match="cannot reach the checkpoint database") as error:
        graph("postgresql://127.0.0.1:9/none?connect_timeout=2")
    assert "\n" not in str(error.value)


def test_a_server_that_was_restarted_is_found_again(postgres, postgres_server):
    here = Session(graph(postgres), "back", task=TASK["task"])
    here.step()
    postgres_server("restart")
    assert here.run()[-1].done


def test_text_that_postgresql_refuses_is_kept_all_the_same(postgres):
    session = Session(graph(postgres), "nul", {"instruction": "find\0 a \ud83d lamp"})
    session.act("search[a\0b \ud800 c]")
    values = Session(graph(postgres), "nul").values
    assert values["episode"]["instruction"] == "find\ufffd a ? lamp"
    assert values["action"] == "search[a\ufffdb ? c]"


def test_two_runs_of_one_thread_take_turns_across_connections(postgres):
    from concurrent.futures import ThreadPoolExecutor

    graphs = [graph(postgres) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.invoke(TASK, thread("both")), graphs))
    assert graphs[0].get_state(thread("both")).values["episodes"] == 2


def test_many_threads_at_once_hold_one_connection(postgres):
    import psycopg

    saver = graph(postgres).checkpointer
    with psycopg.connect(postgres, autocommit=True) as db:
        count = "select count(*) from pg_stat_activity where datname = 'postgres'"
        before = db.execute(count).fetchone()[0]
        turns = [saver.advisory_lock(f"many-{i}") for i in range(40)]
        assert all(turns)
        assert saver.advisory_lock("many-7") is None
        assert graph(postgres).checkpointer.advisory_lock("many-7") is None
        assert db.execute(count).fetchone()[0] <= before + 4
    turns.pop(7)()
    assert saver.advisory_lock("many-7") is not None
    for release in turns:
        release()


def walked(url, name, steps):
    """Return the saver after ``steps`` steps of the sample shop, and the steps' sizes."""
    walk = ["search[lamp]", "click[next >]", "click[< prev]", "click[back to search]"]
    actor = {"kind": "scripted", "actions": (walk * steps)[:steps]}
    values = {"actor": actor, "memory": ["short_term"], "checkpoints": url, "max_steps": steps}
    built = build_graph(load_config(values))
    built.invoke(TASK, {"configurable": {"thread_id": name, "episode_id": "e"}})
    return built


def test_a_step_is_under_twelve_kilobytes_and_a_large_value_is_there_once(own_database):
    built = walked(own_database(), "w", 24)
    (own,) = threads(built.checkpointer)
    assert own.size / 24 < 12_000
    with built.checkpointer._cursor() as cursor:
        large = "from checkpoint_{} where length(blob) > 256"
        query = f"select count(*) n, count(distinct blob) d {large.format('blobs')}"
        counts = cursor.execute(query).fetchone()
        assert counts["n"] == counts["d"] > 16
        query = f"select count(*) n {large.format('writes')}"
        assert cursor.execute(query).fetchone()["n"] == 0
    history = list(built.get_state_history(thread("w")))
    plain = build_graph(load_config({**built.agent.config.model_dump(), "checkpoints": None}))
    plain.invoke(TASK, {"configurable": {"thread_id": "w", "episode_id": "e"}})
    for mine, its in zip(history, plain.get_state_history(thread("w")), strict=True):
        assert mine.values == its.values
        assert [task.result for task in mine.tasks] == [task.result for task in its.tasks]


def test_pruning_takes_the_parts_that_nothing_names_and_a_lost_one_is_one_line(own_database):
    built = walked(own_database(), "w", 12)
    before, saver = built.get_state(thread("w")).values, built.checkpointer
    prune(saver, keep_last=1)
    with saver._cursor() as cursor:
        parts = "from checkpoint_blobs where channel = '__part__'"
        assert 0 < cursor.execute(f"select count(*) n {parts}").fetchone()["n"] <= 4
        assert built.get_state(thread("w")).values == before
        cursor.execute(f"delete {parts}")
    with pytest.raises(UserError, match="not whole"):
        built.get_state(thread("w"))


def test_checkpoints_of_langgraphs_own_saver_are_gone_on_with(own_database):
    from langgraph.checkpoint.postgres import PostgresSaver

    url = own_database()
    config = load_config({"actor": "rule", "memory": ["short_term"]})
    with PostgresSaver.from_conn_string(url) as old:
        old.setup()
        session = Session(build_graph(config, checkpointer=old), "t", TASK["task"])
        session.step()
        before = session.values
    now = Session(graph(url), "t")
    assert now.values == before
    assert now.run()[-1].done
    assert now.back(1).values["steps"] >= 1


def test_a_pool_whose_last_user_is_a_thread_of_its_own_goes_in_silence(postgres):
    """Who collects garbage may be any thread: the pool's own cannot wait for itself."""
    import threading

    from psycopg_pool.pool import MaintenanceTask

    from stategate.stores.tables import open_pool

    gone, problems = threading.Event(), []

    class Last(MaintenanceTask):
        def _run(self, pool):
            try:
                pool.__del__()
            except RuntimeError as error:
                problems.append(error)
            gone.set()

    pool = open_pool(postgres, 1, {"autocommit": True})
    pool.run_task(Last(pool))
    assert gone.wait(10)
    assert problems == []
