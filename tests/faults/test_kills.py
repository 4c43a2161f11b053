"""A kill, or a full disk, at a sample of writes of each scenario; ``make faults`` tries every write."""

import shutil
import signal
from types import SimpleNamespace

import pytest

from tests.faults.killing import SCENARIOS, Inside, run_trials

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the shim")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(scenario):
    report = run_trials(scenario, full=1, most=3)
    assert report["problems"] == []
    assert report["killed"] >= 2
    assert report["acknowledged"] > 0


@pytest.mark.parametrize("scenario", ["ingest", "memory"])
def test_nor_is_it_on_a_server(scenario, postgres):
    report = run_trials(scenario, full=1, most=3, server=postgres)
    assert report["problems"] == []
    assert report["killed"] == 3
    assert report["acknowledged"] > 0


def test_a_kill_after_the_last_acknowledgement_adds_none(monkeypatch, tmp_path):
    inside = object.__new__(Inside)
    shim = SimpleNamespace(fault_arm=lambda *_: None, fault_count=lambda: 7)
    inside.server, inside.shim = "", shim
    monkeypatch.setattr("os._exit", lambda _: signal.raise_signal(signal.SIGKILL))
    assert inside.fork(lambda tell: tell("a"), tmp_path)[:2] == (-signal.SIGKILL, ["a"])
