"""A world from outside, by entry point alone, in a browser: stepped, played, compared, replayed."""

import pytest
from playwright.sync_api import expect

from tests.ui import garden
from tests.ui.browser.steps import act, button, settings, step, tab, wait_for_stops

pytestmark = pytest.mark.browser


def test_a_strangers_world_in_every_way_that_webshop_is_played(new_tab):
    page = new_tab()
    settings(page, **garden.CONFIG)
    tab(page, "Episode")
    page.locator("#sg-pipeline", has_text="garden").wait_for()
    box = page.locator("#sg-task input").first
    box.fill("lantern in the garden")
    page.get_by_role("option").filter(has_text="Light the lantern in the garden.").click()
    page.locator(".sg-wish", has_text="Light the lantern in the garden.").wait_for()
    step(page)
    page.locator("#sg-page .sg-btn", has_text="take lantern").click()
    wait_for_stops(page, 2)
    page.locator("#sg-page input[name=words]").fill("good evening")
    page.keyboard.press("Enter")
    wait_for_stops(page, 3)
    assert "You said: good evening" in page.locator("#sg-page").inner_text()
    act(page, "say it again")
    wait_for_stops(page, 4)
    assert "You said: it again" in page.locator("#sg-page").inner_text()
    tab(page, "Compare")
    expect(page.locator("#sg-moments .sg-stop")).to_have_count(5)  # no more the shop's
    page.locator("#sg-moments .sg-stop").nth(1).click()
    page.locator(".sg-moment", has_text="Step 2").wait_for()
    expect(page.locator(".sg-lane-head").first).to_contain_text("take lantern", timeout=30_000)
    button(page, "Continue with B").click()
    wait_for_stops(page, 1)
    for _ in range(4):
        step(page)
    page.locator(".sg-reward-good").wait_for()
    assert "right room" in page.locator(".sg-reward").inner_text()
    page.locator("#sg-trail .sg-stop").nth(2).click()
    page.locator(".sg-page-past").wait_for()
    assert page.locator("#sg-page .sg-taken").inner_text() == "go hall"
    assert not page.problems
