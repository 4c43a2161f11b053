"""``stategate demo``: one task, several memories, the step where they part, and the table."""

import json

import pytest

from stategate.ui.cli.main import app


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))


def cli(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(list(words), prog_name="stategate")
    return int(ended.value.code or 0)


#: No model file is needed to play by rules.
PLAIN = (
    "--set",
    "actor.kind=rule",
    "--set",
    "updater.kind=none",
    "--builders",
    "full,window,query_rag",
)
PLAIN_EMBEDDER = ("--set", "embedder.kind=hashing")


def test_demo_shows_the_moment_and_what_each_lost(tmp_path, capsys):
    target = tmp_path / "demo.json"
    assert cli("demo", *PLAIN, *PLAIN_EMBEDDER, "--budget", "200", "--json", str(target)) == 0
    told, played = capsys.readouterr().out, json.loads(target.read_text())
    rows = played["memories"]
    at = played["parts_at"]
    assert [row["kind"] for row in rows] == ["full", "window", "query_rag"]
    assert len({row["reward"] for row in rows}) > 1  # the rule by which the task is chosen
    assert all(row["actions"][:at] == rows[0]["actions"][:at] for row in rows)
    assert len({tuple(row["actions"][at : at + 1]) for row in rows}) > 1
    assert f"step {at + 1}: they part" in told
    assert "see it: make ui" in told
    assert all(f"{row['reward']:.2f}" in told and f"{row['tokens']:,}" in told for row in rows)


def test_tasks_before_the_chosen_one_are_told(tmp_path, capsys):
    target = tmp_path / "demo.json"
    assert cli("demo", *PLAIN, *PLAIN_EMBEDDER, "--budget", "200", "--json", str(target)) == 0
    told, goal = capsys.readouterr().out, json.loads(target.read_text())["goal"]
    assert told.count("; the next") == goal


def test_memories_that_do_the_same_are_told_to(capsys):
    more = ("--goal", "3", "--budget", "5000", "--builders", "full,window")
    assert cli("demo", *PLAIN[:4], *PLAIN_EMBEDDER, *more) == 0
    assert "did the same at every step" in capsys.readouterr().out


def test_one_memory_is_no_comparison(capsys):
    assert cli("demo", "--builders", "full") == 2
    assert "two memories" in capsys.readouterr().err
