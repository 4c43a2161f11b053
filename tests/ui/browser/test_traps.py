"""What caught people once, each by a person's own way into it."""

import pytest
from playwright.sync_api import expect

from tests.ui.browser.steps import button, show, tab
from tests.ui.browser.test_other_tabs import contrast, open_run, replay, runs  # noqa: F401 - a fixture
from tests.ui.browser.test_qa_and_memory import add

pytestmark = pytest.mark.browser


def test_an_upload_names_every_file(new_tab, tmp_path):
    page = new_tab()
    tab(page, "QA")
    files = [tmp_path / f"zorb-{number}.md" for number in range(7)]
    for file in files:
        file.write_text(f"# {file.stem}\n\nThe lamp {file.stem} hums.\n")
    add(page, *files)
    for file in files:
        expect(page.locator("#sg-qa-status")).to_contain_text(file.name)


def test_a_replay_opens_at_its_beginning(new_tab, runs):  # noqa: F811
    page = new_tab(width=400)
    show(page, "Runs")
    open_run(page, runs / "wide")
    replay(page, 0)
    strip = page.locator("#sg-run-steps .sg-trail")
    assert strip.evaluate("one => one.scrollWidth > one.clientWidth"), "nothing to scroll"
    assert strip.evaluate("one => one.scrollLeft") < 60
    expect(button(page, "Play all to the end")).to_be_hidden()
