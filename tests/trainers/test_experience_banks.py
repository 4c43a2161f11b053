"""Banks of experience: traces of every form and what is broken in them, folding, pruning."""

import json
from dataclasses import replace

import pytest

from stategate.nodes.experience.episode import Episode, Step
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.resources import Resources
from stategate.stores.bank import Bank
from stategate.stores.errors import UserError
from stategate.stores.files import write_lines
from stategate.stores.trace_store import TraceStore
from stategate.stores.traces import Event
from stategate.trainers.bank import build_bank, read_episodes


def episode(number=0, steps=3, **more):
    question = f"Find me a lamp number {number} with color: red"
    made = tuple(Step(f"click[thing {i}]", f"page {i} of {number}") for i in range(steps))
    facts = {"reward": 1.0, "source": "test", **more}
    return Episode(f"e{number}", f"t{number}", question, made, **facts)


@pytest.fixture
def resources():
    return Resources(None, Hashing())


def test_like_states_fold_into_one_worth_and_other_moves_stay_apart(tmp_path, resources):
    twice = [episode(), replace(episode(), id="again", reward=0.0)]
    built = build_bank("state", tmp_path, twice, resources)
    rows = Bank(tmp_path, "state").rows()
    assert (built.rows, built.read, len(rows)) == (3, 2, 3)
    assert rows[-1].q == pytest.approx(5.0)
    assert rows[-1].data["seen"] == 2
    other = replace(episode(), id="other", steps=(Step("click[buy now]", "page 0 of 0"),))
    assert build_bank("state", tmp_path, [other], resources).rows == 1


RECORD = {
    "episode_id": "a",
    "instruction": "a red scarf",
    "reward": 1.0,
    "events": [
        {"event_type": "OBS", "text": "Webshop [Search]", "t": 0},
        {"event_type": "ACT", "text": "search[red scarf]", "t": 0},
    ],
}


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


def test_a_trace_store_and_its_export_read_the_same_and_what_did_not_end_is_left_out(tmp_path):
    played = ("a", 1, 1.0, True), ("b", 1, 0.2, True), ("c", 2, 0.0, False)
    write_lines(tmp_path / "t.jsonl", store(tmp_path / "t.sqlite", *played).exported())
    stored, _ = read_episodes([tmp_path / "t.sqlite"], include_incorrect=True)
    exported, problems = read_episodes([tmp_path / "t.jsonl"], include_incorrect=True)
    assert stored == exported
    assert [episode.id for episode in stored] == ["a", "b"]
    assert stored[0].task_id == stored[1].task_id == "webshop/goal=1"
    assert [e.id for e in read_episodes([tmp_path / "t.sqlite"])[0]] == ["a"]
    assert "did not end" in problems[0]


def test_broken_records_are_named_and_the_others_are_read_once(tmp_path):
    broken = {
        "{half": "Expecting property name",
        '{"other": 1}': "there are no events",
        '{"events": [], "episode_id": "a", "reward": 1}': "holds no action",
        '{"events": [], "episode_id": "a"}': "'reward' is missing",
        '{"events": 3, "episode_id": "a", "reward": 1}': "not iterable",
    }
    (tmp_path / "empty.json").write_text(" \n")
    good = json.dumps(RECORD)
    (tmp_path / "traces.jsonl").write_text("\n".join([*broken, good, good]))
    episodes, problems = read_episodes([tmp_path])
    assert len(episodes) == 1
    for number, (why, problem) in enumerate(zip(broken.values(), problems, strict=True), 1):
        assert f"line {number}" in problem
        assert why in problem
    with pytest.raises(UserError, match="no traces at"):
        read_episodes([tmp_path / "nowhere"])
