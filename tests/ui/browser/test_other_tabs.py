"""Compare, Runs, Threads and Settings in a real browser; widths and colours."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.evals.test_replay import OPENAI
from tests.ui.browser.steps import (
    button,
    compared,
    fill,
    open_settings,
    rows,
    settings,
    step,
    tab,
    task,
    wait_for_stops,
)

pytestmark = pytest.mark.browser


def test_the_same_moment_through_four_builders_and_on_with_one(page):
    task(page, 3)
    for _ in range(3):
        step(page)
    tab(page, "Compare")
    compared(page)
    box = page.locator("#sg-compare-kinds input").first
    box.fill("compress@90")
    box.press("Enter")
    page.locator("#sg-compare-kinds").get_by_text("compress@90").first.wait_for()
    page.locator("#sg-moments .sg-stop").nth(1).click()
    page.locator(".sg-moment", has_text="Step 2").wait_for()  # compared as it is clicked
    button(page, "Continue with D").wait_for()
    compared(page)
    heads = page.locator(".sg-lane-head")
    expect(heads).to_have_count(4)
    for head in heads.all():
        # Lanes fill one by one.
        expect(head).to_have_text(
            re.compile(r"would\s+(click|search)"), use_inner_text=True, timeout=30_000
        )
        assert re.search(r"[\d,]+ of [\d,]+ tokens", head.inner_text())
        assert "built and decided in" in head.inner_text()
    assert "budget 90" in heads.nth(3).inner_text()
    chunks = page.locator('.sg-lanes [data-piece="navigation"]').all()
    assert len({round(chunk.bounding_box()["y"]) for chunk in chunks}) == 1, "one row a chunk"
    button(page, "Continue with B").click()
    wait_for_stops(page, 1)
    assert "query_rag" in page.locator("#sg-side").inner_text()
    step(page)
    for count in (1, 0):
        button(page, "Back").click()
        wait_for_stops(page, count)


def test_all_are_played_to_the_end(new_tab):
    page = new_tab(on="Compare")
    assert "price lower than" in page.locator(".sg-asked").inner_text()
    assert page.locator(".sg-piece-text del").count(), "cuts stand inside shortened text"
    button(page, "Play all to the end").click()
    page.locator(".sg-ending").nth(2).wait_for()
    rewards = page.locator(".sg-ending b").all_inner_texts()
    assert all(re.fullmatch(r"[01]\.\d\d", reward) for reward in rewards)


def test_a_finding_s_run_opens_and_what_is_no_run_is_told(page, place):
    tab(page, "Runs")
    page.locator(".sg-story button").first.click()
    page.locator(".sg-run-name").wait_for()
    expect(rows(page, "#sg-run-rows").first).to_be_visible()
    box = page.locator("#sg-run input").first
    box.fill(str(place))
    box.press("Enter")
    page.locator("#sg-run-status .sg-note-bad", has_text="no run directory").wait_for()


def test_a_thread_of_a_file_call_by_call(page, tmp_path):
    tab(page, "Threads")
    path = tmp_path / "thread.json"
    hostile = "<img src=x onerror=window.stolen=1>Done."
    path.write_text(json.dumps(OPENAI).replace("Done.", hostile))
    summary, table = page.locator("#sg-msg-summary"), page.locator("#sg-msg-call")
    fill(page, "#sg-msg-where", str(path))
    button(page, "Show").click()
    expect(summary).to_contain_text("compress", timeout=30_000)
    expect(table).to_contain_text("line 1", timeout=30_000)
    page.locator("#sg-msg-slider input[type=number]").fill("1")
    page.locator("#sg-msg-slider input[type=number]").press("Enter")
    expect(table).not_to_contain_text("line 1", timeout=30_000)
    assert not page.evaluate("window.stolen")
    fill(page, "#sg-msg-where", "nowhere.json")
    button(page, "Show").click()
    expect(page.locator("#sg-msg-status")).to_contain_text("cannot read", timeout=30_000)
    expect(summary).to_be_hidden()


def test_a_strangers_plug_in_by_its_parameters(new_tab):
    page = new_tab()
    open_settings(page)
    page.locator("#sg-kinds").get_by_text("stategate-overlap").wait_for()
    wrong = "context: {kind: overlap, keep: 0}"
    page.locator("#sg-yaml .cm-content").fill(wrong)
    button(page, "Apply to this tab").click()
    expect(page.locator("#sg-settings-status .sg-note-bad")).to_contain_text("keep")
    settings(page, context={"kind": "overlap", "keep": 2})
    with page.expect_download() as download:
        page.locator("#sg-yaml a[download]").click()
    assert "keep: 2" in download.value.path().read_text()
    tab(page, "Episode")
    page.locator("#sg-pipeline", has_text="overlap").wait_for()
    page.locator("#sg-side .sg-context").wait_for()


def test_settings_shows_and_takes_the_agent_in_view(new_tab):
    page = new_tab(on="QA")
    page.locator("#sg-pipeline", has_text="recall").wait_for()
    page.locator("#sg-pipeline [data-slot=context]").click()
    text = page.locator("#sg-yaml .cm-content")
    expect(text).to_contain_text("kind: qa")
    text.fill("{env: qa, context: {kind: full, budget: 900}}")
    button(page, "Apply to this tab").click()
    page.locator("#sg-settings-status", has_text="the QA tab answers").wait_for()
    expect(page.locator("#sg-pipeline")).to_contain_text("full · 900")
    tab(page, "QA")
    expect(page.locator("#sg-qa-context input:checked")).to_have_value("full")
    tab(page, "Episode")
    expect(page.locator("#sg-world input").first).to_have_value("webshop")
    budget = page.locator("#sg-budget input[type=number]")
    budget.click()
    budget.press("Control+a")
    page.keyboard.type("150", delay=100)
    expect(page.locator("#sg-pipeline")).to_contain_text("compress · 150")
    assert not page.locator(".toast-body").count(), "a number is typed digit by digit"


@pytest.mark.parametrize("dark", [False, True])
def test_every_tab_fits_and_can_be_read(new_tab, dark):
    page = new_tab(dark=dark)  # one step in, among what was found
    page.locator(".sg-cards").wait_for()
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for name in ("Compare", "QA", "Memory", "Threads", "Runs", "Settings", "Episode"):
            tab(page, name)
            page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
    task, arrow = page.locator("#sg-task input"), page.locator("#sg-task .dropdown-arrow")
    box, pad = (
        task.bounding_box(),
        task.evaluate("e => parseFloat(getComputedStyle(e).paddingRight)"),
    )
    assert box["x"] + box["width"] - pad <= arrow.bounding_box()["x"]
    for selector in ("#sg-side .sg-piece-text", ".sg-wish", ".sg-card-title"):
        assert contrast(page, selector) >= 4.5


def contrast(page, selector):
    """Return the contrast of an element's text against what is behind it (WCAG 2)."""
    return page.evaluate(
        """selector => {
      const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
      const read = colour => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
      };
      const light = ([r, g, b]) => {
        const part = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
        return .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
      };
      const element = document.querySelector(selector);
      let behind = element;
      const back = e => read(getComputedStyle(e).backgroundColor);
      while (behind && back(behind)[3] < .9) behind = behind.parentElement;
      const over = behind ? back(behind) : [255, 255, 255, 1];
      const [x, y] = [light(read(getComputedStyle(element).color)), light(over)];
      return (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
    }""",
        selector,
    )
