"""Compare, State, Runs and Settings in a real browser; errors, widths, colours, the keyboard."""

import json
import re

import pytest
import yaml
from playwright.sync_api import expect

from tests.ui.browser.steps import (
    button,
    compared,
    fill,
    play_to_the_end,
    radio,
    rows,
    settings,
    show,
    step,
    stops,
    tab,
    task,
    use_model,
    wait_for_stops,
)

pytestmark = pytest.mark.browser


def test_the_same_moment_through_three_builders_and_on_with_one(new_tab):
    page = new_tab()
    task(page, 3)
    for _ in range(3):
        step(page)
    tab(page, "Compare")
    compared(page)
    page.locator("#sg-moments .sg-stop").nth(1).click()
    page.locator(".sg-moment", has_text="Step 2").wait_for()  # compared as it is clicked
    compared(page)
    assert page.locator(".sg-lane-head").count() == 3
    for head in page.locator(".sg-lane-head").all():
        # A moment is compared when it is chosen, and again by the button: lanes fill one by one.
        expect(head).to_have_text(
            re.compile(r"would\s+(click|search)"), use_inner_text=True, timeout=30_000
        )
        assert re.search(r"[\d,]+ of [\d,]+ tokens", head.inner_text())
        assert "built in" in head.inner_text()
    rows = page.locator('.sg-lanes [data-piece="navigation"]').all()
    tops = {round(row.bounding_box()["y"]) for row in rows}
    assert len(rows) == 3
    assert len(tops) == 1, "the same chunk stands in one row"
    assert "Step 2" in page.locator(".sg-moment").inner_text()
    button(page, "Continue with B").click()
    wait_for_stops(page, 1)
    assert "query_rag" in page.locator("#sg-side").inner_text()
    step(page)
    button(page, "Back").click()
    wait_for_stops(page, 1)
    button(page, "Back").click()
    wait_for_stops(page, 0)


def test_builders_by_kind_and_budget_and_a_kind_that_is_none(new_tab):
    page = new_tab()
    task(page, 3)
    step(page)
    tab(page, "Compare")
    compared(page)
    box = page.locator("#sg-compare-kinds input").first
    box.fill("compress@90")
    box.press("Enter")
    page.locator(".sg-wrap, #sg-compare-kinds").first.get_by_text("compress@90").first.wait_for()
    button(page, "Compare").click()
    button(page, "Continue with D").wait_for()
    last = page.locator(".sg-lane-head").nth(3)
    assert "budget 90" in last.inner_text()


def test_all_are_played_to_the_end_and_a_fork_is_gone_back_to(new_tab):
    page = new_tab(on="Compare")
    assert "price lower than" in page.locator(".sg-asked").inner_text()
    assert page.locator(".sg-hint").count() == 3
    assert page.locator(".sg-piece-text del").count(), "cuts stand inside shortened text"
    button(page, "Play all to the end").click()
    page.locator(".sg-ending").nth(2).wait_for()
    expect(page.locator(".sg-verdict")).to_contain_text("Rewards at the end")
    rewards = page.locator(".sg-ending b").all_inner_texts()
    assert all(re.fullmatch(r"[01]\.\d\d", reward) for reward in rewards)
    forks = page.locator("#sg-branches .sg-episode")
    expect(forks).to_have_count(4)
    ended = page.locator("#sg-branches .sg-episode", has_text="query_rag")
    steps = int(re.search(r"(\d+) steps", ended.inner_text())[1])
    ended.click()
    page.locator("#sg-branches .sg-here", has_text="query_rag").wait_for()
    expect(page.locator("#sg-moments .sg-stop")).to_have_count(steps + 1)
    tab(page, "Episode")
    wait_for_stops(page, steps)
    page.locator(".sg-reward").wait_for()
    page.locator("#sg-trail .sg-stop").first.click()
    tab(page, "Compare")
    page.locator("#sg-branches .sg-episode", has_text="you are here").wait_for()
    page.reload()
    expect(page.locator("#sg-branches .sg-episode")).to_have_count(4, timeout=30_000)
    assert not page.problems


def test_the_state_over_an_episode(new_tab):
    page = new_tab()
    task(page, 5)
    play_to_the_end(page)
    taken = stops(page)
    page.locator("#sg-state .label-wrap").click()
    page.locator("#sg-plane canvas, #sg-plane svg").first.wait_for()
    for name in ("#sg-allocation", "#sg-foresight"):
        expect(page.locator(f"{name} thead").first.locator("th")).to_have_count(taken + 1)
    button(page, "Back").click()
    expect(page.locator("#sg-allocation thead").first.locator("th")).to_have_count(taken)
    assert not page.problems


@pytest.fixture
def runs(place):
    """Two small run directories where the server looks for them."""
    from stategate.evals.worlds import run_live

    base = ["actor.kind=rule", "embedder.kind=hashing", "memory=[short_term]"]
    for name, budget in (("wide", 600), ("narrow", 90)):
        out = place / "runs" / name
        if not out.exists():
            agents = {"full": [f"context.budget={budget}"]}
            run_live("webshop", agents, range(4), str(out), [*base, "updater.kind=none"])
    broken = place / "runs" / "narrow" / "episodes.jsonl"
    rows = [json.loads(line) for line in broken.read_text().splitlines()]
    rows[1] |= {"reward": 0.0, "error": "ModelUnavailable: gone"}
    broken.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place / "runs"


def open_run(page, folder):
    """Write a run's folder into the box."""
    box = page.locator("#sg-run input").first
    box.fill(str(folder))
    box.press("Enter")


def test_runs_open(new_tab, runs):
    page = new_tab()
    tab(page, "Runs")
    open_run(page, runs / "wide")
    page.locator(".sg-run-name", has_text="wide").wait_for()
    expect(rows(page, "#sg-episodes")).to_have_count(4)
    open_run(page, runs / "narrow")
    page.locator(".sg-run-name", has_text="narrow").wait_for()
    expect(page.locator("#sg-episodes")).to_contain_text("ModelUnavailable")
    open_run(page, runs)
    page.locator("#sg-run-status .sg-note-bad", has_text="no run directory").wait_for()


def test_a_strangers_plug_in_by_its_parameters_and_yaml_out_and_in(new_tab, tmp_path):
    page = new_tab()
    task(page, 3)
    tab(page, "Settings")
    page.locator("#sg-kinds").get_by_text("stranger-topmost").wait_for()
    box = page.locator("#sg-yaml textarea")
    expect(box).to_have_value(re.compile("env:"))
    whole = box.input_value()
    fill(page, "#sg-yaml", "context: {kind: topmost, how_many: 0}")
    button(page, "Apply to this tab").click()
    expect(page.locator("#sg-settings-status .sg-note-bad")).to_contain_text("how_many")
    fill(page, "#sg-yaml", whole)
    settings(page, context={"kind": "topmost", "how_many": 2})
    with page.expect_download() as download:
        button(page, "Save as YAML").click()
    saved = yaml.safe_load(download.value.path().read_text())
    assert saved["context"]["kind"] == "topmost"
    assert saved["context"]["how_many"] == 2
    tab(page, "Episode")
    page.locator("#sg-pipeline", has_text="topmost").wait_for()
    act_on = page.locator("#sg-page input[name=words]")
    act_on.fill("speaker")
    act_on.press("Enter")
    wait_for_stops(page, 1)
    page.locator("#sg-side .sg-lostline").wait_for()
    file = tmp_path / "mine.yaml"
    saved["context"] = {"kind": "window", "budget": 77}
    file.write_text(yaml.safe_dump(saved))
    tab(page, "Settings")
    with page.expect_file_chooser() as chooser:
        button(page, "Load YAML").click()
    chooser.value.set_files(str(file))
    expect(page.locator("#sg-yaml textarea")).to_have_value(re.compile("budget: 77"))
    button(page, "Apply to this tab").click()
    page.locator("#sg-pipeline", has_text="window · 77").wait_for()


def test_a_dead_model_is_a_message_and_is_asked_again(new_tab, fake_model):
    page = new_tab()
    fake_model.stop()
    use_model(page, fake_model.url)
    button(page, "Step").click()
    page.locator("#sg-status .sg-note-bad", has_text="does not answer").wait_for()
    assert page.locator("#sg-page .sg-page").count() == 1
    fake_model.start()
    button(page, "Step").click()
    wait_for_stops(page, 1)
    fake_model.stop()
    button(page, "Step").click()
    page.locator("#sg-status .sg-note-bad", has_text="does not answer").wait_for()
    radio(page, "#sg-actor-kind", "rule")
    page.wait_for_function("!document.querySelector('#sg-status .sg-note-bad')")
    step(page)


def test_a_slow_model_shows_that_it_works_and_can_be_left(new_tab, fake_model):
    page = new_tab()
    fake_model.delay = 90
    use_model(page, fake_model.url)
    button(page, "Step").click()
    page.locator("#sg-status .sg-note-busy").wait_for()
    button(page, "Stop").click()
    page.wait_for_function("!document.querySelector('#sg-step').disabled", timeout=60_000)
    assert stops(page) == 0
    radio(page, "#sg-actor-kind", "rule")
    page.locator("#sg-pipeline", has_text=re.compile(r"act\s*rule")).wait_for()
    step(page)
    assert stops(page) == 1


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_every_tab_fits_and_can_be_read(new_tab, width, dark):
    page = new_tab(width=width, dark=dark)  # one step in, among what was found
    page.locator(".sg-cards").wait_for()
    for name in ("Episode", "Compare", "QA", "Memory", "Threads", "Runs", "Settings"):
        show(page, name)
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
    show(page, "Episode")
    assert contrast(page, "#sg-side .sg-piece-text") >= 4.5
    assert contrast(page, ".sg-wish") >= 4.5
    assert contrast(page, ".sg-card-title") >= 4.5


def contrast(page, selector, drawn="color"):
    """Return the contrast of an element's text (or border) against what is behind it (WCAG 2)."""
    return page.evaluate(
        """([selector, drawn]) => {
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
      let behind = drawn === 'color' ? element : element.parentElement;
      const back = e => read(getComputedStyle(e).backgroundColor);
      while (behind && back(behind)[3] < .9) behind = behind.parentElement;
      const over = behind ? back(behind) : [255, 255, 255, 1];
      const [x, y] = [light(read(getComputedStyle(element)[drawn])), light(over)];
      return (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
    }""",
        [selector, drawn],
    )


def test_everything_is_reached_by_the_keyboard(new_tab):
    page = new_tab()
    task(page, 3)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "sg-step":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    wait_for_stops(page, 1)
    page.locator(".sg-cards").wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('sg-entry')"):
            break
    page.keyboard.press("Enter")
    wait_for_stops(page, 2)
