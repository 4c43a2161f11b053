"""Live evaluation: run directories, resumption, errors counted, tables made from files."""

import json

import pytest

from stategate.envs.protocols import World
from stategate.evals.worlds import chosen_tasks
from stategate.stores.errors import UserError
from tests.kit import call, play_live, read_lines, refused

BASE = ("actor.kind=rule", "updater.kind=none", "memory=[short_term]", "max_steps=20")
AGENTS = {"full": ["context.kind=full"], "small": ["context.kind=full", "context.budget=60"]}


def test_a_run_directory_holds_all_that_a_table_needs(tmp_path):
    out = tmp_path / "run"
    summary = play_live("webshop", AGENTS, "0-5", out, BASE)
    args = json.loads((out / "args.json").read_text())
    for key in ("command", "commit", "data", "seed", "checkpoints", "versions", "agents", "goals"):
        assert key in args
    assert args["data"]["sha256"]
    assert json.loads((out / "summary.json").read_text()) == summary
    full, small = summary["rows"]
    assert (full["n"], small["n"]) == (6, 6)
    assert full["score"] > small["score"]
    assert small["tokens_per_step"] <= 60
    test = next(t for t in summary["tests"] if t["metric"] == "score")
    assert {"a", "b", "metric", "difference", "low", "high", "p"} <= set(test)
    assert len(read_lines(out / "episodes.jsonl")) == 12
    for episode in read_lines(out / "episodes.jsonl"):
        who = (episode["agent"], episode["goal"])
        steps = [
            row for row in read_lines(out / "steps.jsonl") if (row["agent"], row["goal"]) == who
        ]
        assert [row["step"] for row in steps] == list(range(episode["steps"]))
        assert sum(row["tokens"] for row in steps) == episode["tokens"]
        assert sum(row["seconds"] for row in steps) <= episode["seconds"] + 0.001 * len(steps)


def test_agents_on_other_data_are_not_compared(tmp_path):
    agents = {"a": [], "b": ["env.kind=webshop", "env.data=elsewhere"]}
    with pytest.raises(UserError, match="same env.data"):
        play_live("webshop", agents, "0-1", tmp_path / "run", BASE)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear to me")
    with pytest.raises(UserError, match="something else"):
        play_live("webshop", AGENTS, "0-1", tmp_path / "mine", BASE)


def test_no_path_of_this_machine_gets_into_args(tmp_path):
    data = tmp_path / "shop"
    from stategate.envs.webshop.catalogue import SAMPLE

    data.symlink_to(SAMPLE)
    out = tmp_path / "run"
    words = ["--goals", "0", "--agents", "full", "--set", f"env.data={data}", "--out", out]
    call("eval", "live", *words, "--set", "memory=[short_term]")
    assert str(tmp_path) not in (out / "args.json").read_text()


def test_mistakes_end_with_code_2_and_one_line(tmp_path):
    for words in (
        ["--agents", "nonsense"],
        ["--agents", "full", "--goals", "x"],
        ["--agents", "full", "--tasks", "9999"],
        ["--goals", "0"],
    ):
        refused("eval", "worlds", "--out", tmp_path / "x", *words)
    assert not (tmp_path / "x").exists()


def test_a_world_that_lists_its_tasks_is_asked_for_them():
    class Rooms(World):
        def tasks(self):
            return [{"room": "attic"}, {"room": "cellar"}]

    assert chosen_tasks(Rooms(), "1") == {1: {"room": "cellar"}}
    assert list(chosen_tasks(Rooms(), "all")) == [0, 1]
    with pytest.raises(UserError, match="tasks 0-1"):
        chosen_tasks(Rooms(), "0-5")

    class Alone(World):
        pass

    assert chosen_tasks(Alone(), "all") == {0: {}}
