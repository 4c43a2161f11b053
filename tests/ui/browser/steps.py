"""What a person does in the app, as functions."""

import re
from contextlib import suppress

import yaml
from playwright.sync_api import TimeoutError, expect


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def compared(page):
    """Wait until the page that was opened has compared its first moment."""
    button(page, "Continue with B").wait_for(timeout=90_000)
    page.wait_for_function(
        "document.querySelectorAll('#sg-lanes .sg-lane-head').length >= 2"
        " && !document.querySelector('#sg-lanes .sg-spin') && document.querySelectorAll("
        "'#sg-lanes .sg-lane-head').length === document.querySelectorAll('#sg-lanes .sg-would').length",
        timeout=60_000,
    )


def again(page):
    """Reload, and go to the Episode tab."""
    page.reload()
    compared(page)
    tab(page, "Episode")


def stops(page):
    """Return how many steps the trail shows."""
    return max(page.locator("#sg-trail .sg-stop").count() - 1, 0)


def wait_for_stops(page, count, timeout=60_000):
    wanted = count + 1 if count else 0
    page.wait_for_function(
        f"document.querySelectorAll('#sg-trail .sg-stop').length === {wanted}", timeout=timeout
    )


def step(page):
    """Press Step, again where the button was just drawn anew under the first click."""
    wanted = stops(page) + 1
    for _ in range(3):
        button(page, "Step").click()
        with suppress(TimeoutError):
            return wait_for_stops(page, wanted, timeout=25_000)
        if stops(page) == wanted:
            return None
    raise AssertionError("no step is taken")


def play_to_the_end(page, most=25):
    """Press Step until it can be pressed no more."""
    for _ in range(most):
        step(page)
        page.wait_for_function(
            "!document.querySelector('#sg-step').disabled || document.querySelector('.sg-reward')"
        )
        if page.locator(".sg-reward").count():
            return
    raise AssertionError("the episode has no end")


def task(page, number):
    """Choose a task by its number."""
    box = page.locator("#sg-task input").first
    box.fill(f"#{number}")
    box.press("Enter")
    page.locator(".sg-address", has_text=re.compile(f"{number} / step 1$")).wait_for()
    page.wait_for_function("!document.querySelector('#sg-step').disabled")


def tab(page, name):
    page.get_by_role("tab", name=re.compile(f"^{name}")).click()


def show(page, name):
    """Open a tab, from the menu of those that do not fit if need be."""
    found = page.get_by_role("tab", name=name, exact=True)
    if found.count() and found.first.is_visible():
        found.first.click()
        return
    page.locator(".overflow-menu > button").first.click()
    page.locator(".overflow-dropdown button", has_text=name).click()


def choose(page, selector, option):
    """Choose from a list, again where the list was just drawn anew under the first click."""
    box = page.locator(f"{selector} input").first
    for _ in range(3):
        with suppress(TimeoutError, AssertionError):
            box.click(timeout=10_000)
            page.get_by_role("option", name=option, exact=True).first.click(timeout=10_000)
            return expect(box).to_have_value(option, timeout=5_000)
    raise AssertionError(f"{selector} does not keep {option}")


def act(page, action):
    fill(page, "#sg-typed", action)
    button(page, "Act").click()


def radio(page, selector, option):
    page.locator(selector).get_by_role("radio", name=option, exact=True).click()


def apply(page):
    """Apply the forms, again where the button was just drawn anew under the first click."""
    good = page.locator("#sg-settings-status .sg-note-good")
    for _ in range(4):
        button(page, "Apply to this tab").click()
        with suppress(TimeoutError):
            return good.wait_for(timeout=8_000)
    raise AssertionError("the forms are not applied")


def fill(page, selector, text):
    """Write into a box, again where it was just drawn anew."""
    box = page.locator(selector).locator("textarea, input").first
    for _ in range(3):
        box.fill(text)
        box.press("End")  # a box that is drawn anew has lost it by now
        with suppress(AssertionError):
            return expect(box).to_have_value(text, timeout=5_000)
    raise AssertionError(f"{selector} does not keep what is written into it")


def settings(page, **slots):
    """Fill slots of the agent by its YAML, and apply it."""
    tab(page, "Settings")
    box = page.locator("#sg-yaml textarea")
    expect(box).to_have_value(re.compile("env:"))
    fill(page, "#sg-yaml", yaml.safe_dump({**yaml.safe_load(box.input_value()), **slots}))
    apply(page)


def use_model(page, url):
    """Let a chat model at ``url`` act."""
    settings(page, llm={"kind": "openai", "base_url": url}, actor="chat")
    tab(page, "Episode")


def rows(page, table):
    """Return the rows of a table, by their first cells."""
    return page.locator(f'{table} [data-row][data-col="0"]')


def press_row(page, table, row=0):
    """Click a table's row; -1 is its last."""
    number = row if row >= 0 else rows(page, table).count() + row
    page.locator(f'{table} [data-row="{number}"][data-col="1"]').click()
