"""Checkpoints in a real PostgreSQL, started for the test."""

import asyncio

import pytest

from graph import Session, build_graph, load_config
from stores.errors import UserError
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
