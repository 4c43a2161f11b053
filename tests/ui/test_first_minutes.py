"""A newcomer's first minutes: the README from its first line on, and the pages' code."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from stategate.evals.worlds import parse_agents
from stategate.graph.config import load_config
from stategate.nodes.models.embedders import HashingEmbedder, MiniLM
from stategate.nodes.resources import shared_resources
from stategate.ui.cli.main import app
from tests.kit import Scripted, call

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
PLAIN = ["--set", "updater.kind=none", "--set", "embedder.kind=hashing"]


@pytest.fixture(autouse=True)
def newcomer(tmp_path, home, monkeypatch):
    """A machine on which nothing of ours was ever run."""
    monkeypatch.chdir(tmp_path)


def blocks(page, language):
    """The fenced blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def test_the_readme_begins_with_what_make_does():
    for target, does in (("demo", "stategate demo"), ("ui", "stategate ui")):
        assert f"make {target} " in blocks(PAGES[0], "console")[0]
        recipe = ["make", "-n", target, "-o", "setup"]
        done = subprocess.run(recipe, cwd=ROOT, capture_output=True, text=True, check=True)
        assert does in done.stdout


def test_the_readme_s_middleware_prints_what_it_says(capsys):
    exec(blocks(PAGES[0], "python")[0], {"__name__": "readme"})
    said = [text for text in blocks(PAGES[0], "text") if "tokens a call" in text]
    assert capsys.readouterr().out == said[0]


def test_using_s_python_runs(capsys, monkeypatch):
    stand_in = HashingEmbedder(384)  # what is tested is the page's code, not what the model knows
    stand_in.name = "all-MiniLM-L6-v2"
    monkeypatch.setattr(MiniLM, "build", lambda params, resources: stand_in)
    names = {}
    shared_resources.cache_clear()
    try:
        for block in blocks(ROOT / "docs" / "using.md", "python"):
            exec(block, names)
    finally:
        shared_resources.cache_clear()  # no other test's memory may have the stand-in
    out = capsys.readouterr().out
    assert "True" in out
    assert "Oslo" in out


def test_the_first_commands_do_what_they_say():
    first = blocks(ROOT / "docs" / "using.md", "console")[0]
    commands = [shlex.split(line, comments=True)[1:] for line in first.splitlines()]
    assert [words[0] for words in commands] == ["demo", "ui", "run", "ask", "memory", "eval"]
    assert "stategate eval worlds" in call(*commands[0], *PLAIN)
    answer = call(*commands[3], "--set", "actor.kind=extract", "--set", "embedder.kind=hashing")
    assert "sentences from [1]" in answer or "Nothing found." in answer


def parsed(line):
    """Parse a command line as its command would; nothing is run. Returns its parameters."""
    words, command = shlex.split(line, comments=True)[1:], typer.main.get_command(app)
    context = command.make_context("stategate", [], resilient_parsing=True)
    while hasattr(command, "commands"):
        command = command.resolve_command(context, words)[1]
        context = type(context)(command, parent=context, info_name=words[0])
        words = words[1:]
    command.parse_args(context, words)  # raises for a flag or a command that is none
    return context.params


def test_every_command_of_a_finding_runs():
    page = yaml.safe_load((ROOT / "docs" / "results" / "stories.yaml").read_text("utf-8"))
    lines = [story["command"] for story in page if "command" in story]
    assert len(lines) > 3
    for values in map(parsed, lines):
        if "goals" in values:  # agents of worlds are configs
            for own in parse_agents(values["agents"].split(","), values["agent"]).values():
                load_config(values["config"], [*values["overrides"], *own])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_one_with_flags_that_there_are(page):
    text = "\n".join(blocks(page, "console")).replace("\\\n", " ")
    lines = [line.strip().removesuffix("&").strip() for line in text.splitlines()]
    for line in (line for line in lines if line.startswith("stategate ")):
        parsed(line)


def test_links_of_readme_and_index_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "docs" / "README.md", ROOT / "docs" / "tour.md"):
        for target in re.findall(r"\]\(([^)#]+?)\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "results").glob("*.md")]
    missing = [p.name for p in pages if p.name not in index and p.name != "README.md"]
    assert not missing, f"not in the index: {missing}"


def test_the_page_s_code_runs(tmp_path, capsys):
    pytest.importorskip("sqlalchemy")
    page = blocks(ROOT / "docs" / "middleware.md", "python")
    assert len(page) == 7
    calls = [("read_page", {"number": number}) for number in range(1, 7)]
    models = [Scripted.of([*calls], "7 coins."), Scripted.of(calls[:1], "Done.")]
    names = {"MODEL": models[0]}
    later = {3: Scripted.of(calls[:2], "7 coins.")}
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for number, block in enumerate(page):
        names["model"] = later.get(number, names.get("model"))
        exec(block.replace('"openai:gpt-5-mini"', "MODEL"), names)
        if number == 1:
            names["agent"] = names["create_agent"](models[1], [names["read_page"]])
    out = capsys.readouterr().out
    assert "messages are read" in out
    before, after = map(int, re.findall(r"(\d+) → (\d+)", out)[-1])
    assert after < before / 2
    assert (tmp_path / "agent.sqlite").stat().st_size < 200_000


PAGE = ROOT / "docs" / "security.md"


def threats(page):
    """Yield (threat, the names between backticks in its last column)."""
    table = page.partition("| threat | OWASP | defence | test |\n|---|---|---|---|\n")[2]
    for line in table.partition("\n\n")[0].splitlines():
        cells = re.split(r"(?<!\\)\|", line.strip("|"))
        yield cells[0].strip(), re.findall(r"`((?:test_|tests/)[^`]+)`", cells[-1])


def test_each_threat_has_a_test_that_there_is():
    names = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    rows = dict(threats(PAGE.read_text("utf-8")))
    assert len(rows) > 25
    for threat, tests in rows.items():
        assert tests, f"no test for: {threat}"
        for test in tests:
            there = "def test_" in (ROOT / test).read_text() if "/" in test else test in names
            assert there, f"{test} is no test ({threat})"
