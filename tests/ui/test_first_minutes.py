"""A newcomer's first minutes: the README from its first line on.

Commands run in this process, without a model: what needs one is told so by ``--set``.
"""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer

from stategate.ui.cli.main import app
from tests.kit import call

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
LINES = [line.partition("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
PLAIN = ["--set", "updater.kind=none", "--set", "embedder.kind=hashing"]


@pytest.fixture(autouse=True)
def newcomer(tmp_path, monkeypatch):
    """A machine on which nothing of ours was ever run."""
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def test_the_first_block_is_made_by_make():
    assert [line for line in LINES if line][:3] == ["make demo", "make ui", "make test"]
    for target, does in (("demo", "stategate demo"), ("ui", "stategate ui")):
        asked = ["make", "-n", target, "-o", "setup"]
        shown = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
        assert does in shown.stdout


def test_three_commands_come_first_and_do_what_they_say():
    start = README.index("Three commands to start with")
    first = re.search(r"```console\n(.*?)```", README[start:], re.DOTALL)[1]
    commands = [shlex.split(line, comments=True)[1:] for line in first.splitlines()]
    assert [words[0] for words in commands] == ["demo", "ui", "ask"]
    assert "stategate eval worlds" in call(*commands[0], *PLAIN)
    asked = call(*commands[2], "--set", "actor.kind=extract", "--set", "embedder.kind=hashing")
    assert "sentences from [1]" in asked or "nothing found" in asked


def test_every_other_line_is_a_command_with_flags_that_there_are():
    """Each is parsed as its command would parse it; nothing is run."""
    group = typer.main.get_command(app)
    lines = [line.removesuffix("&").strip() for line in LINES if line.startswith("stategate ")]
    assert len(lines) > 15
    for line in lines:
        words, command = shlex.split(line)[1:], group
        context = command.make_context("stategate", [], resilient_parsing=True)
        while hasattr(command, "commands"):
            command = command.resolve_command(context, words)[1]
            context = type(context)(command, parent=context, info_name=words[0])
            words = words[1:]
        command.parse_args(context, words)  # raises for a flag or a command that is none


def test_links_of_readme_and_index_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "docs" / "README.md", ROOT / "docs" / "tour.md"):
        for target in re.findall(r"\]\(([^)#]+?)\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "results").glob("*.md")]
    missing = [p.name for p in pages if p.name not in index and p.name != "README.md"]
    assert not missing, f"not in the index: {missing}"
