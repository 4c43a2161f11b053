"""Traces of every form, and what is broken in them."""

import json

import pytest

from stategate.stores.errors import UserError
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore
from stategate.trainers.bank.sources import read_episodes

RECORD = {
    "episode_id": "a",
    "instruction": "a red scarf",
    "reward": 1.0,
    "events": [
        {"event_type": "OBS", "text": "Webshop [Search]", "t": 0},
        {"event_type": "ACT", "text": "search[red scarf]", "t": 0},
    ],
}


def write(path, *records):
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


def store(path, *episodes):
    traces = TraceStore(path)
    for name, goal, reward, done in episodes:
        events = [Event("OBS", "page", 0), Event("ACT", "search[x]", 0)]
        traces.write_step(
            name,
            0,
            events,
            task={"env": "webshop", "goal": goal},
            instruction="a lamp",
            reward=reward,
            done=done,
        )
    return traces


def test_a_trace_store_and_its_export_read_the_same(tmp_path):
    traces = store(tmp_path / "t.sqlite", ("a", 1, 1.0, True), ("b", 1, 0.2, True))
    traces.export_jsonl(tmp_path / "t.jsonl")
    both = [
        read_episodes([tmp_path / name], include_incorrect=True) for name in ("t.sqlite", "t.jsonl")
    ]
    assert both[0].episodes == both[1].episodes
    assert [episode.id for episode in both[0].episodes] == ["a", "b"]
    assert both[0].episodes[0].task_id == both[0].episodes[1].task_id == "webshop/goal=1"
    assert [e.id for e in read_episodes([tmp_path / "t.sqlite"]).episodes] == ["a"]


def test_an_unfinished_episode_is_not_learned_from(tmp_path):
    traces = store(tmp_path / "t.sqlite", ("a", 1, 0.0, False), ("b", 2, 1.0, True))
    assert [e.id for e in read_episodes([tmp_path / "t.sqlite"], True).episodes] == ["b"]
    traces.export_jsonl(tmp_path / "t.jsonl")
    read = read_episodes([tmp_path / "t.jsonl"], True)
    assert [e.id for e in read.episodes] == ["b"]
    assert "did not end" in read.problems[0]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ("{half", "Expecting property name"),
        ('{"other": 1}', "there are no events"),
        ('{"events": [], "episode_id": "a", "reward": 1}', "holds no action"),
        ('{"events": [], "episode_id": "a"}', "'reward' is missing"),
        ('{"events": 3, "episode_id": "a", "reward": 1}', "not iterable"),
    ],
)
def test_a_broken_record_is_named_and_the_others_are_read(tmp_path, record, problem):
    path = tmp_path / "traces.jsonl"
    path.write_text(f"{record}\n{json.dumps(RECORD)}\n")
    read = read_episodes([path])
    assert len(read.episodes) == 1
    assert len(read.problems) == 1
    assert "line 1" in read.problems[0]
    assert problem in read.problems[0]


def test_empty_files_missing_paths_and_doubles(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "empty.json").write_text(" \n")
    write(tmp_path / "a" / "one.jsonl", RECORD, RECORD)
    read = read_episodes([tmp_path / "a"])
    assert len(read.episodes) == 1
    assert read.problems == ["empty.json: empty"]
    with pytest.raises(UserError, match="no traces at"):
        read_episodes([tmp_path / "nowhere"])
