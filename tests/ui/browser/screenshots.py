"""Make the pictures of docs/images anew: ``python -m tests.ui.browser.screenshots URL [FOLDER]``.

URL is a running ``stategate ui``. The four of the tour are light and 1280 wide. With FOLDER every tab
is taken in two widths and both colour schemes, to be looked at.
"""

import io
import itertools
import sys
from pathlib import Path

from tests.ui.browser.conftest import chromium
from tests.ui.browser.steps import button, compared, fill, play_to_the_end, tab, task

FOLDER = Path(__file__).parents[3] / "docs" / "images"


def main(url, folder=None):
    from playwright.sync_api import sync_playwright

    target = Path(folder) if folder else FOLDER
    target.mkdir(exist_ok=True)
    looks = itertools.product((1280, 400), ("light", "dark")) if folder else [(1280, "light")]
    with sync_playwright() as play:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=chromium(), args=flags)
        for width, scheme in looks:
            size = {"width": width, "height": 900 if width > 400 else 860}
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.set_default_timeout(90_000)
            page.goto(url)
            views(page, target, f"-{width}-{scheme}" if folder else "")
            page.context.close()
        browser.close()


def views(page, folder, tail):
    """Take the pictures of one width and colour scheme."""
    from PIL import Image

    def shot(name):
        page.evaluate("window.scrollTo(0, 0)")
        page.mouse.move(0, 0)
        page.wait_for_timeout(700)
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.save(folder / f"{name}{tail}.webp", quality=82, method=6)

    compared(page)
    button(page, "Play all to the end").click()
    page.locator(".sg-ending").nth(2).wait_for()
    page.locator("#sg-compare-stop").wait_for(state="hidden")
    shot("compare")
    tab(page, "Episode")
    task(page, 3)
    button(page, "Step").click()
    page.locator(".sg-cards").wait_for()
    shot("episode")
    play_to_the_end(page)
    if tail:
        page.locator("#sg-state .label-wrap").click()
        page.locator("#sg-foresight th").first.wait_for()
        shot("state")
    tab(page, "QA")
    told = "I keep my boat Pelican in Bergen."
    for question in (told, "Why does a brinicle grow?", "What is the capital of Peru?"):
        fill(page, "#sg-question", question)
        button(page, "Ask").click()
        page.wait_for_function("document.querySelector('#sg-ask').disabled")
        page.wait_for_function("!document.querySelector('#sg-ask').disabled")
    shot("qa")
    tab(page, "Runs")
    page.locator(".sg-story").nth(8).wait_for()
    shot("runs")
    if tail:
        tab(page, "Settings")
        page.locator("#sg-yaml .cm-line").first.wait_for()
        shot("settings")


if __name__ == "__main__":
    main(*sys.argv[1:])
