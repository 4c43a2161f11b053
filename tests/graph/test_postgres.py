"""Checkpoints in a real PostgreSQL, started for the test."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from graph import Session, build_graph, load_config
from stores.errors import UserError
from tests.graph.test_graph import TASK, thread


def _server_programs():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = found[-1] if found else shutil.which("initdb")
    return Path(path).parent if path else None


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """Start a server on a socket of its own and yield its URL; PostgreSQL refuses to run as root."""
    programs = _server_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server here: install the package 'postgresql'")
    folder = tmp_path_factory.mktemp("pg")
    prefix = []
    if os.geteuid() == 0:
        prefix = ["runuser", "-u", "postgres", "--"]
        for parent in (folder, *folder.parents[:3]):  # one more under pytest-xdist
            parent.chmod(0o755)
        shutil.chown(folder, "postgres")

    def run(*words):
        done = subprocess.run(
            [*prefix, *map(str, words)], capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    data = folder / "data"
    run(programs / "initdb", "-D", data, "-A", "trust", "-U", "tester")
    options = f"-c listen_addresses= -k {folder}"
    run(programs / "pg_ctl", "-D", data, "-o", options, "-l", folder / "log", "-w", "start")
    yield f"postgresql://tester@/postgres?host={folder}"
    run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


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
