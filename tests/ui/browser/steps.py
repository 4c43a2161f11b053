"""What a person does in the app, as functions."""

from contextlib import suppress

import yaml
from playwright.sync_api import TimeoutError, expect

from stategate.graph import load_config


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
    """Choose a task by its number, in the Episode tab."""
    tab(page, "Episode")
    box = page.locator("#sg-task input").first
    box.fill(f"#{number}")
    box.press("Enter")
    page.wait_for_function("!document.querySelector('#sg-task input').value.startsWith('#')")
    wait_for_stops(page, 0)
    page.wait_for_function("!document.querySelector('#sg-step').disabled")


def tab(page, name):
    """Open a tab, from the menu of those that do not fit if need be."""
    page.get_by_role("tab", name="Compare", exact=True).wait_for()  # a page may be loading
    found = page.get_by_role("tab", name=name, exact=True)
    if found.count() and found.first.is_visible():
        found.first.click()
        return
    page.locator(".overflow-menu > button").first.click()
    page.locator(".overflow-dropdown button", has_text=name).click()


def radio(page, selector, option):
    """Choose an option, behind "more …" if need be."""
    choices = page.locator(selector)
    choices.get_by_role("radio").first.wait_for()
    if not choices.get_by_role("radio", name=option, exact=True).count():
        choices.get_by_role("radio", name="more …", exact=True).click()
    page.locator(selector).get_by_role("radio", name=option, exact=True).click()


def fill(page, selector, text):
    """Write into a box, again where it was just drawn anew."""
    box = page.locator(selector).locator("textarea, input").first
    for _ in range(3):
        box.fill(text)
        box.press("End")  # a box that is drawn anew has lost it by now
        with suppress(AssertionError):
            return expect(box).to_have_value(text, timeout=5_000)
    raise AssertionError(f"{selector} does not keep what is written into it")


def upload(page, label, files):
    """Choose files with a button; ``files`` holds their bytes by name."""
    with page.expect_file_chooser() as chooser:
        button(page, label).click()
    chooser.value.set_files(
        [{"name": n, "mimeType": "text/plain", "buffer": data} for n, data in files.items()]
    )


def open_settings(page):
    """Open the settings, and wait for the agent's YAML: it would replace what is written before."""
    tab(page, "Settings")
    page.wait_for_function("document.querySelector('#sg-yaml .cm-content').innerText.trim()")


def settings(page, preset="ui", **slots):
    """Let an agent play that is the preset's but for ``slots``: write its YAML, and apply it."""
    open_settings(page)
    config = {**load_config(preset).model_dump(mode="json"), **slots}
    page.locator("#sg-yaml .cm-content").fill(yaml.safe_dump(config))
    button(page, "Apply to this tab").click()
    page.locator("#sg-settings-status .sg-note-good").wait_for()


def rows(page, table):
    """Return the rows of a table, by their first cells."""
    return page.locator(f'{table} [data-row][data-col="0"]')


def press_row(page, table, row=0):
    """Click a table's row; -1 is its last."""
    number = row if row >= 0 else rows(page, table).count() + row
    page.locator(f'{table} [data-row="{number}"][data-col="1"]').click()
