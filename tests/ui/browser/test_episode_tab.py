"""The Episode tab in a real browser: play, go back, act by hand, reload, two people at once."""

import re

import pytest
from playwright.sync_api import expect

from tests.ui.browser.steps import (
    button,
    compared,
    play_to_the_end,
    radio,
    settings,
    step,
    stops,
    tab,
    task,
    wait_for_stops,
)

pytestmark = pytest.mark.browser


def test_an_episode_to_its_end_and_back_with_its_state(page):
    task(page, 5)
    play_to_the_end(page)
    assert re.fullmatch(r"[01]\.\d\d", page.locator(".sg-reward-figure b").inner_text())
    for part in ("attributes", "price", "type"):
        assert page.locator(".sg-reward").get_by_text(part).count()
    assert page.locator(".sg-bill").count() == 2
    assert button(page, "Step").is_disabled()
    taken = stops(page)
    page.locator("#sg-state .label-wrap").click()
    steps = page.locator("#sg-foresight thead").first.locator("th")
    expect(steps).to_have_count(taken + 1)
    page.locator("#sg-trail .sg-stop").nth(1).click()
    page.locator(".sg-page-past").wait_for()
    assert page.locator("#sg-page .sg-taken").count() == 1
    assert "read at step 2" in page.locator("#sg-side").inner_text()
    for left in (taken - 1, taken - 2):
        button(page, "Back").click()
        wait_for_stops(page, left)
    assert not page.locator(".sg-reward").count()
    expect(steps).to_have_count(taken - 1)
    page.locator("#sg-state .label-wrap").click()


def test_what_the_model_reads_follows_the_budget(new_tab):
    page = new_tab()
    page.locator(".sg-cards").wait_for()
    kept = page.locator("#sg-side .sg-meter-head b")
    before = int(kept.inner_text().replace(",", ""))
    page.locator("#sg-budget input[type=number]").fill("120")
    page.locator("#sg-budget input[type=number]").press("Enter")
    page.wait_for_function(
        "was => +document.querySelector('#sg-side .sg-meter-head b').innerText.replace(',','') < was",
        arg=before,
    )
    assert int(kept.inner_text()) <= 120
    radio(page, "#sg-context-kind", "query_rag")
    page.locator("#sg-side .sg-lostline").wait_for()
    lost = page.locator("#sg-side .sg-lostline .sg-act-lost").first
    colour = lost.evaluate("e => getComputedStyle(e).color")
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    assert red > 2 * max(green, blue)
    assert page.locator("#sg-page .sg-unseen").count()
    assert page.locator("#sg-side .sg-dropped").count()
    assert "query_rag · 120" in page.locator("#sg-pipeline").inner_text()


def test_acting_by_hand_by_click_and_by_word(page):
    task(page, 3)
    page.locator("#sg-page input[name=words]").fill("speaker")
    page.keyboard.press("Enter")
    wait_for_stops(page, 1)
    page.locator("#sg-page .sg-entry").nth(2).click()
    wait_for_stops(page, 2)
    chip = page.locator("#sg-page .sg-choice .sg-chip").first
    name = chip.inner_text()
    chip.click()
    wait_for_stops(page, 3)
    assert name.lower() in page.locator("#sg-page .sg-chosen").inner_text().lower()
    button(page, "back to search").click()
    wait_for_stops(page, 4)
    assert "you" in page.locator("#sg-trail .sg-stop-facts").last.inner_text()


def test_own_words_and_a_chosen_task(page):
    tab(page, "Episode")
    box = page.locator("#sg-task input").first
    box.fill("green tea under 20 dollars")
    box.press("Enter")
    page.locator(".sg-wish", has_text="green tea under 20 dollars").wait_for()
    box.fill("hdmi")
    page.get_by_role("option").filter(has_text="hdmi").first.click()
    page.locator(".sg-wish", has_text="hdmi").wait_for()


def test_everything_is_reached_by_the_keyboard(page):
    task(page, 3)

    def press_tab_until(condition):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(condition):
                return
        raise AssertionError(condition)

    press_tab_until("document.activeElement.id === 'sg-step'")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    wait_for_stops(page, 1)
    page.locator(".sg-cards").wait_for()
    press_tab_until("document.activeElement.classList.contains('sg-entry')")
    page.keyboard.press("Enter")
    wait_for_stops(page, 2)


def test_a_dead_model_is_asked_again_and_a_run_is_stopped_after_its_step(new_tab, fake_model):
    page = new_tab()
    fake_model.stop()
    settings(page, llm={"kind": "openai", "base_url": fake_model.url}, actor="chat")
    tab(page, "Episode")
    button(page, "Step").click()
    page.locator("#sg-status .sg-note-bad", has_text="does not answer").wait_for()
    assert page.locator("#sg-page .sg-page").count() == 1
    fake_model.start()
    reply = fake_model.answer

    def second_waits(body):
        if len(fake_model.requests) > 1:
            fake_model.goes_on.wait(120)
        return reply(body)

    fake_model.answer = second_waits
    button(page, "Auto-run").click()
    wait_for_stops(page, 1)
    while len(fake_model.requests) < 2:
        page.wait_for_timeout(50)
    expect(button(page, "Step")).to_be_disabled()
    button(page, "Stop").click()
    fake_model.goes_on.set()
    wait_for_stops(page, 2)
    page.wait_for_function("!document.querySelector('#sg-step').disabled")
    radio(page, "#sg-actor-kind", "rule")
    page.locator("#sg-pipeline", has_text=re.compile(r"act\s*rule")).wait_for()
    button(page, "Auto-run").click()
    page.locator(".sg-reward").wait_for()
    assert stops(page) > 2


def test_a_second_press_while_a_step_runs_does_not_act_twice(new_tab, fake_model):
    page = new_tab()
    settings(page, llm={"kind": "openai", "base_url": fake_model.url}, actor="chat")
    tab(page, "Episode")
    reply = fake_model.answer

    def slow(body):
        fake_model.goes_on.wait(120)
        return reply(body)

    fake_model.answer = slow
    button(page, "Step").click()
    page.locator("#sg-status .progress-text").wait_for()
    button(page, "Step").click()
    button(page, "Step").press("Enter")
    fake_model.goes_on.set()
    wait_for_stops(page, 1)
    page.wait_for_timeout(1500)
    assert stops(page) == 1


def test_tabs_do_not_mix_a_duplicate_is_its_own_and_a_reload_finds_its_episode(new_tab):
    first = new_tab()
    task(first, 2)
    step(first)
    name = first.evaluate("sessionStorage.getItem('stategate-tab')")
    second = first.context.new_page()
    second.add_init_script(
        "if (!sessionStorage.getItem('stategate-tab'))"
        f" sessionStorage.setItem('stategate-tab', '{name}')"
    )
    second.goto(first.url)
    compared(second)
    tab(second, "Episode")
    wait_for_stops(second, 1)
    assert second.evaluate("sessionStorage.getItem('stategate-tab')") != name
    task(second, 4)
    for page in (second, first, second):
        step(page)
    assert (stops(first), stops(second)) == (2, 2)
    wish, trail = first.locator(".sg-wish").inner_text(), first.locator("#sg-trail").inner_text()
    assert wish != second.locator(".sg-wish").inner_text()
    first.reload()
    tab(first, "Episode")
    wait_for_stops(first, 2)
    assert first.locator(".sg-wish").inner_text() == wish
    assert first.locator("#sg-trail").inner_text() == trail
    step(first)
