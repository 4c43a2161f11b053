"""The trace store: idempotent, forked, exported, read by many."""

import subprocess
import sys

import pytest

from stategate.stores.errors import UserError
from stategate.stores.files import write_lines
from stategate.stores.trace_store import TraceStore
from stategate.stores.traces import Event, read_trajectories


def events(step, *, last=False):
    found = [Event("OBS", f"page {step}", step), Event("ACT", f"click[{step}]", step)]
    return [*found, Event("REWARD", "1.0", step), Event("DONE", "", step)] if last else found


@pytest.fixture
def store(place):
    return TraceStore(place("traces"))


def write(store, episode="e", steps=3):
    for step in range(steps):
        last = step == steps - 1
        store.write_step(
            episode,
            step,
            events(step, last=last),
            thread_id="t",
            task={"env": "webshop", "goal": 1},
            reward=float(last),
            done=last,
        )


def test_episodes_come_newest_first_and_are_exported_oldest_first(store):
    write(store, "won")
    store.write_step("going", 0, events(0))
    assert [(e["episode_id"], e["done"]) for e in store.episodes()] == [
        ("going", False),
        ("won", True),
    ]
    assert [e["episode_id"] for e in store.exported()] == ["won", "going"]


def test_separators_and_half_an_emoji_survive_a_round_trip(store, tmp_path):
    store.write_step("e", 0, [Event("OBS", "a\u2028b\x85c\r\nd", 0), Event("ACT", "x\ud83d", 0)])
    write_lines(tmp_path / "t.jsonl", store.exported())
    (episode,) = read_trajectories(tmp_path / "t.jsonl")
    assert (
        list(episode.events)
        == store.events("e")
        == [Event("OBS", "a\u2028b\x85c\r\nd", 0), Event("ACT", "x?", 0)]
    )


_FORKED = """
import os, sys
from stategate.stores.traces import Event
from stategate.stores.trace_store import TraceStore

store = TraceStore(sys.argv[1])
store.write_step("parent", 0, [Event("ACT", "x", 0)])
child = os.fork()
for step in range(1, 30):
    store.write_step("child" if child == 0 else "parent", step, [Event("ACT", "y", step)])
if child == 0:
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_does_not_use_its_parents_connection(tmp_path):
    store = TraceStore(tmp_path / "traces.sqlite")
    # In a process of its own: forking one that has threads may hang.
    done = subprocess.run([sys.executable, "-c", _FORKED, str(store.path)], check=False)
    assert done.returncode == 0
    assert {e["episode_id"]: e["steps"] for e in store.episodes()} == {"parent": 30, "child": 30}


def test_two_names_in_one_database_are_two_stores(database):
    a, b = TraceStore(database("a")), TraceStore(database("b"))
    write(a, "in a")
    assert b.episodes() == []
    with pytest.raises(UserError, match="no name for tables"):
        TraceStore(database('a"; drop schema public'))
