"""The Threads tab in a real browser: a thread from a file, from both databases, and from the start."""

import json

import pytest
from langchain.agents import create_agent
from playwright.sync_api import expect

from examples.scripted import Scripted
from stategate.graph.checkpoints import open_saver
from tests.evals.test_replay import OPENAI
from tests.graph.test_middleware import ASK, read_page
from tests.ui.browser.conftest import Server
from tests.ui.browser.steps import button, tab

pytestmark = pytest.mark.browser
HOSTILE = json.dumps(OPENAI).replace("Done.", "<img src=x onerror=window.stolen=1>Done.")


def show(page, where):
    """Name a thread and press Show."""
    tab(page, "Threads")
    page.locator("#sg-msg-where textarea, #sg-msg-where input").first.fill(where)
    button(page, "Show").click()


def test_a_thread_of_a_file_call_by_call(new_tab, tmp_path):
    path = tmp_path / "thread.json"
    path.write_text(HOSTILE)
    page = new_tab()
    show(page, str(path))
    summary, reading = page.locator("#sg-msg-summary"), page.locator("#sg-msg-reading")
    expect(summary).to_contain_text("compress", timeout=30_000)
    expect(reading).to_contain_text("line 17", timeout=30_000)
    page.locator("#sg-msg-slider input[type=number]").fill("1")
    page.locator("#sg-msg-slider input[type=number]").press("Enter")
    expect(reading).not_to_contain_text("line 17", timeout=30_000)
    assert not page.evaluate("window.stolen")
    show(page, "nowhere.json")
    expect(page.locator("#sg-msg-status")).to_contain_text("cannot read", timeout=30_000)
    assert not page.problems


def test_threads_of_checkpoint_databases(new_tab, tmp_path, postgres):
    page = new_tab()
    for place, answer in ((str(tmp_path / "agent.sqlite"), "Teal."), (postgres, "Blue.")):
        calls = [("read_page", {"number": i}) for i in range(3)]
        agent = create_agent(
            Scripted.of(calls, answer), [read_page], checkpointer=open_saver(place)
        )
        agent.invoke(ASK, {"configurable": {"thread_id": "browsed"}})
        show(page, f"{place}#browsed")
        expect(page.locator("#sg-msg-slider")).to_contain_text("of 4", timeout=30_000)
        expect(page.locator("#sg-msg-call")).to_contain_text("page 2", timeout=30_000)
        show(page, place)
        expect(page.locator("#sg-msg-status")).to_contain_text("browsed", timeout=30_000)
    assert not page.problems


def test_the_app_opens_with_a_thread(place, new_tab, tmp_path):
    path = tmp_path / "thread.json"
    path.write_text(HOSTILE)
    running = Server(place, "--messages", str(path)).start()
    try:
        page = new_tab(url=running.url, wait=False)
        tab(page, "Threads")
        expect(page.locator("#sg-msg-slider")).to_contain_text("of 2", timeout=30_000)
        expect(page.locator("#sg-msg-reading")).to_contain_text("line 17", timeout=30_000)
        assert not page.evaluate("window.stolen")
    finally:
        running.stop()
