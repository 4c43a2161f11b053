"""The Threads tab: a thread from a file, a database or pasted, drawn call by call."""

import json
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from langchain.agents import create_agent

from examples.scripted import Scripted
from stategate.graph.checkpoints import open_saver
from stategate.ui.app.tabs.threads import ThreadsTab
from tests.evals.test_replay import OPENAI
from tests.graph.test_middleware import ASK, read_page


@pytest.fixture
def tab() -> Any:
    with gr.Blocks():
        return ThreadsTab()


def drawn(tab: Any, update: Any) -> str:
    return " ".join(str(update.get(part, "")) for part in (tab.summary, tab.call, tab.table))


def test_a_thread_is_drawn_with_its_bill(tab: Any, tmp_path: Path) -> None:
    where = tmp_path / "thread.json"
    where.write_text(json.dumps(OPENAI))
    update = tab.open(str(where), ["compress", "window"], 2000)
    assert not update[tab.status]
    assert [row[0] for row in update[tab.summary]] == ["nothing", "compress", "window"]
    _, _, untouched, compressed, _ = update[tab.table]["data"][-1]
    assert "shortened" in compressed
    assert untouched.partition(": ")[2] != compressed.partition(": ")[2]
    assert "line 1" in drawn(tab, update)
    assert "line 1" not in drawn(tab, tab.look(update[tab.state], 1))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_thread_comes_out_of_a_checkpoint_database(
    tab: Any, tmp_path: Path, kind: str, request: Any
) -> None:
    files = str(tmp_path / "agent.sqlite")
    where = files if kind == "sqlite" else request.getfixturevalue("postgres")
    model = Scripted.of([("read_page", {"number": i}) for i in range(3)], "Blue.")
    agent = create_agent(model, [read_page], checkpointer=open_saver(where))
    agent.invoke(ASK, {"configurable": {"thread_id": "t"}})
    update = tab.open(f"{where}#t", ["compress"], 2000)
    assert "of 4" in drawn(tab, update)
    assert "page 2" in drawn(tab, update)
    assert "of 4" in drawn(tab, tab.open(where, [], 2000))  # the only thread


def test_what_is_wrong_is_told(tab: Any) -> None:
    assert "cannot read" in str(tab.open("nowhere.json", ["compress"], 2000)[tab.status])
