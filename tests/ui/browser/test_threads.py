"""The Threads tab in a real browser: a thread from a file, call by call."""

import json

import pytest
from playwright.sync_api import expect

from tests.evals.test_replay import OPENAI
from tests.ui.browser.steps import button, fill, tab

pytestmark = pytest.mark.browser
HOSTILE = json.dumps(OPENAI).replace("Done.", "<img src=x onerror=window.stolen=1>Done.")


def show(page, where):
    """Name a thread and press Show."""
    fill(page, "#sg-msg-where", where)
    button(page, "Show").click()


def test_a_thread_of_a_file_call_by_call(page, tmp_path):
    tab(page, "Threads")
    path = tmp_path / "thread.json"
    path.write_text(HOSTILE)
    show(page, str(path))
    summary, table = page.locator("#sg-msg-summary"), page.locator("#sg-msg-call")
    expect(summary).to_contain_text("compress", timeout=30_000)
    expect(table).to_contain_text("line 1", timeout=30_000)
    page.locator("#sg-msg-slider input[type=number]").fill("1")
    page.locator("#sg-msg-slider input[type=number]").press("Enter")
    expect(table).not_to_contain_text("line 1", timeout=30_000)
    assert not page.evaluate("window.stolen")
    show(page, "nowhere.json")
    expect(page.locator("#sg-msg-status")).to_contain_text("cannot read", timeout=30_000)
    expect(summary).to_be_hidden()
