"""Agents with real tools: worlds played, calls written as text, the tools of a folder."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from stategate.evals.agents.files import make_files, tools_over
from stategate.evals.agents.players import read_calls
from stategate.evals.agents.with_tools import play, run_tools
from stategate.stores.errors import UserError


@pytest.mark.parametrize(("world", "player"), [("alfworld", "seeker"), ("webshop", "rule")])
def test_actors_play_worlds_through_their_tools(world: str, player: str, tmp_path: Path) -> None:
    out, arms = str(tmp_path / "run"), ("nothing", "compress")
    summary = run_tools(out, world, player, 2, arms, 3000, overrides=["embedder=hashing"])
    rows = {row["agent"]: row for row in summary["rows"] if "family" not in row}
    assert rows["nothing"]["success"] == rows["compress"]["success"] == 1.0
    assert all(row["orphans"] == 0 and not row["errors"] for row in rows.values())
    assert rows["compress"]["tokens_per_call"] < 3000


class Shortens:
    """What is left of a text by a compressor that knows no command."""

    def compress_prompt(self, texts: list[str], target_token: int) -> dict[str, str]:
        return {"compressed_prompt": re.sub(r"- go to (?=[a-m])", "", texts[0])}


def test_commands_that_a_compressor_of_words_destroys_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stategate.evals.agents.lingua.compressor", lambda weights: Shortens())
    run = str(tmp_path / "run"), "alfworld", "seeker", 1, ("nothing", "llmlingua"), 3000, 8
    rows = {r["agent"]: r for r in run_tools(*run, ["embedder=hashing"])["rows"][:2]}
    assert rows["nothing"]["commands_lost"] == 0
    assert 0.1 < rows["llmlingua"]["commands_lost"] < 1


class Writes(GenericFakeChatModel):
    """Says what a small model says."""

    def bind_tools(self, tools: Any, **extra: Any) -> Any:
        return self


def test_a_model_that_writes_its_calls_solves_a_task_of_files(tmp_path: Path) -> None:
    task = make_files(3)
    for name, text in task.files.items():
        (tmp_path / name).write_text(text)
    first, second = list(task.files)[:2]
    says = [
        '```json\n{"name": "list_files", "arguments": {}}\n```',
        f'I read it. {{"name": "read_file", "arguments": {{"name": "{first}"}}}}\n'
        '{"name": "calculator", "arguments": {"expression": "made up before it was read"}}',
        f'{{{{"name": "read_file", "arguments": {{"name": "{Path(second).stem}"}}}}}}',
        '{"name": "search", "arguments": {"words": "barrels"}}',
        '{"name": "calculator", "arguments": {"expression": "3 * (4 + 5)"}}',
        f"They keep {task.answer} together.",
    ]
    model = Writes(messages=iter([AIMessage(text) for text in says]))
    row, messages = play(model, tools_over(tmp_path), "compress", task.question, 3000, 10)
    results = [m.text for m in messages if m.type == "tool"]
    assert results[0].split() == sorted(task.files)
    assert results[1] == task.files[first]
    assert results[2] == task.files[second]
    assert results[-1] == "27"
    assert task.is_right(messages[-1].text)
    assert not task.is_right("I do not know: 3 files.")
    assert row["calls"] == 6
    assert row["orphans"] == 0


def test_the_folder_s_tools_stay_in_the_folder_and_calculate_numbers_only(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("hello")
    (tmp_path / "secret.md").write_text("secret")
    tools = {tool.name: tool for tool in tools_over(tmp_path / "in")}
    assert tools["read_file"].invoke({"name": "a.md"}) == "hello"
    assert "no file" in tools["read_file"].invoke({"name": "../secret.md"})
    for bad in ("__import__('os').getcwd()", "2 ** 9999999", "1 / 0", "x", "("):
        assert "cannot be calculated" in tools["calculator"].invoke({"expression": bad})


def test_prose_is_no_call() -> None:
    said = AIMessage('The answer is {"name": "Ann"}.')
    assert read_calls(said, {"search"}, "w") is said


def test_wrong_players_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="or an actor"):
        run_tools(str(tmp_path), "alfworld", "nobody")
    with pytest.raises(UserError, match="language model"):
        run_tools(str(tmp_path), "files", "rule")
