"""The page of results: captions that hide nothing, copies, mistakes."""

import json

import pytest

from evals.report import main, report, section
from evals.run_directory import RunDirectory
from stores.errors import UserError

AGENT = {"env": {"observation": "text"}, "actor": {"kind": "rule"}, "llm": None}
ARGS = {
    "command": "python -m evals.live", "commit": "0123456789abcdef with uncommitted changes",
    "goals": [0, 1], "seed": 7, "max_steps": 9, "data": {"name": "sample", "sha256": "f" * 64},
    "agents": {"full": AGENT},
}  # fmt: skip
ROW = {"agent": "full", "n": 2, "success": 0.5, "success_se": 0.5, "errors": 0}
ROW |= {"tokens_per_step": 80.0, "tokens_per_step_se": None, "cost": 0.0, "cost_se": 0.0}


@pytest.fixture
def run(tmp_path):
    made = RunDirectory(tmp_path / "rule", ARGS)
    made.summarise([ROW], [])
    return made


def test_a_caption_says_what_made_the_table(run):
    shown = section(run.folder)
    for fact in ("goals 0–1 (n = 2)", "`sample`", "at most 9 steps", "seed 7", "`rule`", "`text`"):
        assert fact in shown
    assert "`0123456789ab` with uncommitted changes" in shown
    assert "| full | 2 | 50.0 ± 50.0 | 80 | 0 |" in shown


def test_a_caption_names_every_actor_and_every_commit(tmp_path):
    chat = {**AGENT, "actor": {"kind": "chat"}, "llm": {"model": "small"}}
    args = {**ARGS, "agents": {"rule": AGENT, "chat": chat}, "resumed": [{"commit": "fedcba"}]}
    made = RunDirectory(tmp_path / "two", args)
    made.summarise([{**ROW, "cost": 0.25}], [])
    shown = section(made.folder)
    assert "Actor `rule`, `chat`" in shown
    assert "uncommitted changes, then `fedcba`" in shown
    assert "cost $" in shown


def test_a_report_is_written_with_its_sources_and_its_plot(run, tmp_path):
    intro = tmp_path / "intro.md"
    intro.write_text("# Shops\n")
    page = tmp_path / "docs" / "shops.md"
    main([str(run.folder), "--out", str(page), "--intro", str(intro)])
    assert page.read_text().startswith("# Shops\n\n![")
    assert json.loads((page.parent / "runs" / "rule" / "args.json").read_text()) == ARGS
    assert page.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"


def test_mistakes_leave_no_page(run, tmp_path, capsys):
    page = tmp_path / "page.md"
    for words in (["nowhere"], [str(run.folder), "--intro", "missing.md"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--out", str(page)])
        assert ended.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(UserError, match="one name"):
        report([run.folder, run.folder], page)
    assert not page.exists()
