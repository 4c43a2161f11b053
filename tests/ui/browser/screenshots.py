"""Make the pictures of docs/images anew: ``python -m tests.ui.browser.screenshots URL``.

URL is a running ``stategate ui``. Run ``pngquant --ext .png --force docs/images/*.png`` afterwards.
"""

import sys
from pathlib import Path

from tests.ui.browser.conftest import chromium
from tests.ui.browser.steps import button, fill, play_to_the_end, step, tab, task

FOLDER = Path(__file__).parents[3] / "docs" / "images"


def main(url):
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as play:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=chromium(), args=flags)
        for dark in (False, True):
            for width in (1280, 400):
                scheme = "dark" if dark else "light"
                size = {"width": width, "height": 900 if width > 400 else 860}
                page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
                page.set_default_timeout(90_000)
                page.goto(url)
                page.locator("#sg-side .sg-context").wait_for()
                views(page, width, ("-dark" if dark else "") + ("-400" if width == 400 else ""))
                page.context.close()
        browser.close()


def views(page, width, tail):
    """Take the pictures of one width and colour scheme."""

    def shot(name):
        page.evaluate("window.scrollTo(0, 0)")
        page.mouse.move(0, 0)
        page.wait_for_timeout(700)
        page.screenshot(path=str(FOLDER / f"{name}{tail}.png"))

    task(page, 3)
    step(page)
    page.locator(".sg-cards").wait_for()
    shot("webshop")
    if width == 400:
        return
    tab(page, "Fork and compare")
    button(page, "Compare").click()
    button(page, "Continue with C").wait_for()
    shot("compare")
    if tail:
        return
    tab(page, "Episode")
    play_to_the_end(page)
    tab(page, "State")
    button(page, "Play reference episodes").click()
    page.get_by_text("over 12 reference").wait_for()
    shot("state")
    tab(page, "QA")
    for question in ("Why does a brinicle grow?", "Why is Blood Falls red?"):
        fill(page, "#sg-question", question)
        button(page, "Ask").click()
        page.wait_for_timeout(3000)
        page.wait_for_function("!document.querySelector('#sg-ask').disabled")
    shot("qa")


if __name__ == "__main__":
    main(sys.argv[1])
