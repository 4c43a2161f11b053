"""``docs/middleware.md`` and the examples do what they say, with a scripted model for the real one."""

import re
from pathlib import Path
from typing import Any

import pytest

from examples import agent_with_memory, deep_research, graph_made_by_hand
from examples.scripted import Scripted

ROOT = Path(__file__).parents[1]


def test_the_page_s_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    page = (ROOT / "docs" / "middleware.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 7
    calls = [("read_page", {"number": number}) for number in range(1, 7)]
    models = [Scripted.of([*calls], "7 coins."), Scripted.of(calls[:1], "Done.")]
    names: dict[str, Any] = {"MODEL": models[0]}
    later = {3: Scripted.of(calls[:2], "7 coins.")}
    monkeypatch.chdir(tmp_path)  # the page's own files
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for number, block in enumerate(blocks):
        names["model"] = later.get(number, names.get("model"))
        exec(block.replace('"openai:gpt-5-mini"', "MODEL"), names)
        if number == 1:
            names["agent"] = names["create_agent"](models[1], [names["read_page"]])
    out = capsys.readouterr().out
    assert "messages are read" in out
    before, after = map(int, re.findall(r"(\d+) → (\d+)", out)[-1])
    assert after < before / 2
    assert (tmp_path / "agent.sqlite").stat().st_size < 200_000


def test_examples_fit_on_a_page() -> None:
    for path in (ROOT / "examples").glob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) < 60


def test_examples_run(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "Saturn" in agent_with_memory.main("Which planet has the most moons?")
    lines = re.findall(r"([\d,]+) tokens of history,\s+([\d,]+) read", capsys.readouterr().out)
    before, after = (int(x.replace(",", "")) for x in lines[-1])
    assert after < before / 2
    assert "day 1" in graph_made_by_hand.main()
    assert "files" in deep_research.main(str(ROOT / "docs"), "What is measured about memory?")
