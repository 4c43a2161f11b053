"""Runs are read as they lie, and never written to."""

import json

import pytest

from stategate.evals.core.run_directory import (
    find_runs,
    outcome_of,
    read_run,
)
from stategate.stores.errors import UserError

ROWS = [
    {"agent": "a", "goal": 0, "reward": 1.0, "steps": 2, "tokens": 10, "error": None},
    {"agent": "a", "goal": 1, "reward": 0.5, "steps": 3, "tokens": 20, "error": None},
    {"agent": "b", "goal": 0, "reward": 0.0, "steps": 9, "tokens": 90, "error": None},
    {"agent": "b", "goal": 1, "reward": 0.0, "steps": 1, "tokens": 5, "error": "<b>died</b>"},
]


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    args = {"command": "x", "data": {"name": "sample", "sha256": "abc"}, "goals": [0, 1]}
    (run / "args.json").write_text(json.dumps(args))
    (run / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    steps = [{"agent": "a", "goal": 0, "step": s, "action": f"click[{s}]"} for s in (1, 0)]
    (run / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in steps) + '{"to')
    return run


def test_a_run_is_read_and_its_torn_row_is_left_where_it_is(folder):
    before = (folder / "steps.jsonl").read_bytes()
    run = read_run(folder)
    assert [row["agent"] for row in run.episodes] == ["a", "a", "b", "b"]
    assert (folder / "steps.jsonl").read_bytes() == before
    assert find_runs([folder.parents[1]]) == [folder]


def test_an_episode_ends_in_one_of_four_ways():
    ends = {(row["agent"], row["goal"]): outcome_of(row) for row in ROWS}
    assert ends == {
        ("a", 0): "success",
        ("a", 1): "partial",
        ("b", 0): "failed",
        ("b", 1): "errors",
    }


def test_damage_is_told_by_line_and_other_folders_are_refused(folder, tmp_path):
    with pytest.raises(UserError, match="no run directory"):
        read_run(tmp_path)
    (folder / "episodes.jsonl").write_text("{}\nnonsense\n")
    with pytest.raises(UserError, match="line 2"):
        read_run(folder)
