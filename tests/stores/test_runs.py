"""Run directories: torn lines, resumption, nothing of this machine, strict JSON."""

import json
import subprocess

import pytest

from stategate.stores import runs
from stategate.stores.errors import UserError
from stategate.stores.runs import (
    RunDirectory,
    parse_numbers,
    provenance,
)

ARGS = {"command": "x", "commit": "a", "versions": {"numpy": "2"}, "seed": 0, "goals": [1]}


def test_rows_keep_line_separators_and_half_an_emoji(tmp_path):
    run = RunDirectory(tmp_path / "run", ARGS)
    row = {"action": "search[a\u2028b\x85c]", "error": "half \ud83d"}
    run.append("steps", row)
    assert run.rows("steps") == [row]


def test_other_code_is_written_down_once(tmp_path):
    run = RunDirectory(tmp_path / "run", ARGS)
    run.note_resumption({**ARGS, "command": "again"})
    args = tmp_path / "run" / "args.json"
    assert "resumed" not in json.loads(args.read_text())
    run.note_resumption({**ARGS, "commit": "b"})
    run.note_resumption({**ARGS, "commit": "b"})
    assert [made["commit"] for made in json.loads(args.read_text())["resumed"]] == ["b"]
    RunDirectory(tmp_path / "run", ARGS)


def test_a_summary_is_strict_json(tmp_path):
    run = RunDirectory(tmp_path / "run", ARGS)
    summary = run.summarise([{"agent": "full", "n": 1, "score": 0.5, "score_se": float("nan")}], [])
    text = (tmp_path / "run" / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == summary
    assert summary["rows"][0]["score_se"] is None


def test_a_file_in_the_way_or_broken_args_are_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="name a new folder"):
        RunDirectory(tmp_path / "file", ARGS)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "args.json").write_text('{"seed":')
    with pytest.raises(UserError, match="name a new folder"):
        RunDirectory(tmp_path / "run", ARGS)


def test_the_command_tells_nothing_of_this_machine():
    words = ["x", "--agent", "a=env.data=/me/data,context.kind=full", "--out=/me/runs/r"]
    words += ["--set", "memory=[{kind: trace, path: /me/t.db}]", "--set", "env.data=../me/shop"]
    words += ["--set", "llm.base_url=http://h:80/v1", "--set", "checkpoints=postgresql://u:pw@h/db"]
    command = provenance(words)["command"]
    assert "me/" not in command
    assert "pw" not in command
    for kept in ("a=env.data=data,context.kind=full", "--out=r", "t.db", "http://h:80/v1", "h/db"):
        assert kept in command


def test_another_repository_lends_no_commit(tmp_path, monkeypatch):
    subprocess.run(["git", "init", tmp_path], check=True, capture_output=True)
    package = tmp_path / "lib" / "site-packages"
    package.mkdir(parents=True)
    monkeypatch.setattr(runs, "_ROOT", package)
    assert provenance(["x"])["commit"] == "unknown (not a git checkout)"


def test_numbers_are_parsed():
    assert parse_numbers("0-2,7,1") == [0, 1, 2, 7]
    for wrong in ("a-b", "", "1-"):
        with pytest.raises(UserError, match="write tasks as"):
            parse_numbers(wrong, "tasks")
