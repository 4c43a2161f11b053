"""The guide's world, known by its entry point alone: stepped, played, compared, replayed."""

import pytest
from playwright.sync_api import expect

from tests.ui.browser.steps import button, settings, step, tab, wait_for_stops

pytestmark = pytest.mark.browser
WINNING = ["go kitchen", "take lantern", "go hall", "give lantern"]
CONFIG = {
    "env": "garden",
    "embedder": "hashing",
    "updater": "none",
    "context": {"kind": "full", "budget": 300},
    "actor": {"kind": "scripted", "actions": WINNING},
    "memory": ["short_term"],
    "max_steps": 8,
}


def test_a_strangers_world_in_every_way_that_webshop_is_played(new_tab):
    page = new_tab()
    settings(page, **CONFIG)
    tab(page, "Episode")
    page.locator("#sg-pipeline", has_text="garden").wait_for()
    page.locator("#sg-task input").first.fill("lantern")
    page.get_by_role("option").filter(has_text="Find the lantern").click()
    page.locator(".sg-wish", has_text="Find the lantern").wait_for()
    step(page)
    page.locator("#sg-page .sg-btn", has_text="take lantern").click()
    wait_for_stops(page, 2)
    page.locator("#sg-page .sg-btn", has_text="go hall").click()
    wait_for_stops(page, 3)
    tab(page, "Compare")
    expect(page.locator("#sg-moments .sg-stop")).to_have_count(4)  # no more the shop's
    page.locator("#sg-moments .sg-stop").nth(1).click()
    page.locator(".sg-moment", has_text="Step 2").wait_for()
    expect(page.locator(".sg-lane-head").first).to_contain_text("take lantern", timeout=30_000)
    button(page, "Continue with B").click()
    wait_for_stops(page, 1)
    for _ in range(3):
        step(page)
    page.locator(".sg-reward-good").wait_for()
    page.locator("#sg-trail .sg-stop").nth(2).click()
    page.locator(".sg-page-past").wait_for()
    assert page.locator("#sg-page .sg-taken").inner_text() == "go hall"
