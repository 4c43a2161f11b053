"""Make the pictures of docs/images anew: ``python -m tests.ui.browser.screenshots URL``.

URL is a running ``stategate ui``. The four of the tour are light and 1280 wide.
"""

import io
import sys
from pathlib import Path

from tests.ui.browser.conftest import chromium
from tests.ui.browser.steps import button, compared, fill, tab, task

FOLDER = Path(__file__).parents[3] / "docs" / "images"


def main(url):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=chromium(), args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.set_default_timeout(90_000)
        page.goto(url)
        take_pictures(page)
        browser.close()


def take_pictures(page):
    from PIL import Image

    def shot(name):
        page.evaluate("window.scrollTo(0, 0)")
        page.mouse.move(0, 0)
        page.wait_for_timeout(700)
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.save(FOLDER / f"{name}.webp", quality=82, method=6)

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


if __name__ == "__main__":
    main(*sys.argv[1:])
