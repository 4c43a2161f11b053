"""Work on several processes: the serial run's rows, each once, whatever dies."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from stategate.stores.errors import UserError
from stategate.stores.settings import Shared
from stategate.stores.workers import TRIES, work
from tests.evals.jobs import broken, evaluate, halves, rows
from tests.kit import play_live

AGENTS = {"full": ["context.kind=full"], "window": ["context.kind=window"]}
SETTINGS = ["actor.kind=rule", "updater.kind=none", "memory=[short_term]"]


def live(out, workers=1):
    return play_live("webshop", AGENTS, "0-5", out, SETTINGS, workers=workers)


def timeless(summary):
    return [
        {k: v for k, v in row.items() if "seconds" not in k} for row in summary["rows"]
    ], summary["tests"]


def test_two_workers_make_what_one_process_makes(tmp_path):
    serial = live(tmp_path / "one")
    shared = live(tmp_path / "two", 2)
    assert timeless(serial) == timeless(shared)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")


def test_a_killed_worker_loses_nothing_and_a_sample_that_always_kills_is_counted(tmp_path):
    summary = evaluate(tmp_path, range(9), Shared(workers=2), deadly={2: 1, 5: 2, 7: 99})
    assert summary["rows"][0]["n"] == 9
    found = rows(tmp_path / "run")
    assert sorted(row["number"] for row in found) == list(range(9))
    (bad,) = [row for row in found if row["error"]]
    assert bad["number"] == 7
    assert f"({TRIES} times)" in bad["error"]
    assert len(list(tmp_path.glob("tried-5-*"))) == len(list(tmp_path.glob("tried-7-*"))) == TRIES


def test_a_worker_past_its_deadline_is_replaced(tmp_path):
    started = time.monotonic()
    summary = evaluate(tmp_path, range(4), Shared(workers=2, deadline=2), slow=(1,))
    assert summary["rows"] == [{"agent": "a", "n": 4, "sum": 12}]
    assert time.monotonic() - started < 40


@pytest.mark.parametrize("shared", [None, Shared(workers=2)])
def test_a_server_that_is_away_marks_nothing_as_failed(tmp_path, shared):
    with pytest.raises(UserError, match="the same command goes on"):
        evaluate(tmp_path, range(6), shared, away=(2, 3, 4))
    assert not (tmp_path / "run" / "errors.jsonl").exists()
    assert not (tmp_path / "run" / "summary.json").exists()
    (tmp_path / "server").touch()
    summary = evaluate(tmp_path, range(6), shared, away=(2, 3, 4))
    assert summary["rows"] == [{"agent": "a", "n": 6, "sum": 30}]


DRIVER = """
import sys
from pathlib import Path
from stategate.stores.settings import Shared
from tests.evals.jobs import evaluate
if __name__ == "__main__":
    print(evaluate(Path(sys.argv[1]), range(40), Shared(workers=2))["rows"])
"""


def test_a_killed_driver_takes_its_workers_along_and_its_run_goes_on(tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(textwrap.dedent(DRIVER))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
    words = [sys.executable, str(script), str(tmp_path)]
    driver = subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL)
    table = tmp_path / "run" / "episodes.jsonl"
    while not table.exists() or table.read_bytes().count(b"\n") < 5:
        time.sleep(0.002)
        assert driver.poll() is None or table.exists()
    driver.kill()
    driver.wait()
    time.sleep(1.5)
    tried = len(list(tmp_path.glob("tried-*")))
    time.sleep(0.5)
    assert len(list(tmp_path.glob("tried-*"))) == tried, "a worker went on alone"
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert "'n': 40, 'sum': 1560" in done.stdout
    found = rows(tmp_path / "run")
    assert sorted(row["number"] for row in found) == list(range(40))


def test_a_second_writer_of_a_run_directory_is_refused(tmp_path):
    from stategate.stores.runs import RunDirectory

    first = RunDirectory(tmp_path / "run", {"seed": 0})
    with first.alone(), pytest.raises(UserError, match="another process writes"):
        evaluate(tmp_path, range(2))


def test_workers_that_cannot_start_are_one_line():
    with pytest.raises(UserError, match="no model here"):
        list(work(broken, [1, 2], Shared(workers=2)))
    with pytest.raises(UserError, match="leave --workers out"):
        list(work(lambda: None, [1], Shared(workers=2)))


@pytest.mark.parametrize("shared", [None, Shared(workers=2)])
def test_each_job_comes_once_with_its_result(shared):
    done = {job: result for job, result, _ in work(halves, [5, 3, 8, 1], shared)}
    assert done == {5: 2.5, 3: 1.5, 8: 4.0, 1: 0.5}


def test_a_job_that_fails_is_told():
    problems = {job: problem for job, _, problem in work(halves, [1, 13], Shared(workers=2))}
    assert problems == {1: None, 13: "ValueError: an unlucky number"}
