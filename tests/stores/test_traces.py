"""The trace store: idempotent, forked, exported, read by many."""

import json
import multiprocessing
import sqlite3

import pytest

from stores.errors import UserError
from stores.traces import Event, TraceStore


def events(step, *, last=False):
    found = [Event("OBS", f"page {step}", step), Event("ACT", f"click[{step}]", step)]
    return [*found, Event("REWARD", "1.0", step), Event("DONE", "", step)] if last else found


@pytest.fixture
def store(tmp_path):
    return TraceStore(tmp_path / "traces.sqlite")


def write(store, episode="e", steps=3):
    for step in range(steps):
        last = step == steps - 1
        store.write_step(
            episode, step, events(step, last=last),
            thread_id="t", task={"env": "webshop", "goal": 1}, reward=float(last), done=last,
        )  # fmt: skip


def test_a_step_written_twice_is_kept_once(store):
    write(store)
    once = store.events("e")
    store.write_step("e", 2, events(2, last=True), reward=1.0, done=True)
    assert store.events("e") == once
    assert [event.t for event in once] == [0, 0, 1, 1, 2, 2, 2, 2]


def test_stepping_back_forgets_the_old_future(store):
    write(store)
    store.write_step("e", 1, [Event("ACT", "another way", 1)])
    assert [event.text for event in store.events("e")] == ["page 0", "click[0]", "another way"]
    (episode,) = store.episodes()
    assert (episode["steps"], episode["done"], episode["reward"]) == (2, False, 0.0)


def test_a_fork_has_the_past_and_leaves_the_original(store):
    write(store)
    store.fork("e", "f", 2)
    assert store.events("f") == store.events("e")[:4]
    store.write_step("f", 2, [Event("ACT", "elsewhere", 2)])
    assert store.events("e")[-1].kind == "DONE"


def test_episodes_are_filtered(store):
    write(store, "won")
    write(store, "going", steps=2)
    store.write_step("lost", 0, events(0), task={"env": "qa"}, reward=0.2, done=True)
    assert {e["episode_id"] for e in store.episodes()} == {"won", "going", "lost"}
    assert {e["episode_id"] for e in store.episodes(min_reward=1.0)} == {"won", "going"}
    assert [e["episode_id"] for e in store.episodes(env="qa")] == ["lost"]
    assert len(store.episodes(limit=1)) == 1


def test_export_has_the_agreed_form_and_reads_back(store, tmp_path):
    write(store)
    path = tmp_path / "out" / "traces.jsonl"
    assert store.export_jsonl(path) == 1
    (line,) = path.read_text().splitlines()
    row = json.loads(line)
    assert list(row)[:3] == ["episode_id", "events", "reward"]
    assert row["events"][0] == {"event_type": "OBS", "text": "page 0", "t": 0}
    other = TraceStore(tmp_path / "other.sqlite")
    assert other.import_jsonl(path) == 1
    assert other.events("e") == store.events("e")
    assert other.episodes()[0]["reward"] == 1.0


def test_bad_files_are_one_clear_line(store, tmp_path):
    broken = tmp_path / "broken.sqlite"
    broken.write_text("no database at all " * 60)
    with pytest.raises(UserError, match="name another file"):
        TraceStore(broken)
    (tmp_path / "bad.jsonl").write_text(
        '{"episode_id": "x", "events": [], "reward": 0}\n{"a": 1}\n'
    )
    with pytest.raises(UserError, match="line 2"):
        store.import_jsonl(tmp_path / "bad.jsonl")
    with pytest.raises(UserError, match="cannot read"):
        store.import_jsonl(tmp_path / "missing.jsonl")


def _many(path, name):
    write(TraceStore(path), name, steps=20)


def test_processes_write_side_by_side(store):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_many, args=(store.path, f"e{i}")) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert {e["steps"] for e in store.episodes()} == {20}
    with sqlite3.connect(store.path) as db:
        assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
