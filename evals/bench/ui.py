"""The app as a browser feels it: first paint, the first episode, a step with the rule actor.

A server with a cache folder of its own (the downloaded models are shared) and headless Chromium; needs
the packages of ``stategate[dev]`` and a Chromium. Cold: no text of the pages was embedded before.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stores.errors import UserError
from stores.home import cache
from stores.runs import with_errors

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def find_browser() -> str:
    """Return the path of a Chromium. Raises ``UserError`` if it, or playwright, is not there."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        raise UserError("this benchmark needs playwright: pip install 'stategate[dev]'") from None
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise UserError("this benchmark needs a browser: apt-get install chromium")
    return path


def measure_ui(goals: Sequence[int] = (5, 40, 80), pages: int = 5) -> list[dict[str, Any]]:
    """Return rows in milliseconds, each with its n and standard error."""
    from playwright.sync_api import sync_playwright

    with _server() as (url, started), sync_playwright() as play:
        browser = play.chromium.launch(executable_path=find_browser(), args=_FLAGS)
        page = browser.new_page()
        page.goto(url)
        page.locator("#sg-side .sg-context").wait_for(timeout=120_000)  # models are loaded now
        paints, firsts = [], []
        for _ in range(pages):
            context = browser.new_context()
            fresh = context.new_page()
            begun = time.perf_counter()
            fresh.goto(url)
            fresh.locator("#sg-page .sg-page").wait_for()
            firsts.append(time.perf_counter() - begun)
            paints.append(float(fresh.evaluate(_PAINT)) / 1000)
            context.close()
        cold = [seconds for goal in goals for seconds in _play(page, goal)]
        warm = [seconds for goal in goals for seconds in _play(page, goal)]
        browser.close()
    return [
        _row("server start", [started]),
        _row("first paint", paints),
        _row("first episode on the page", firsts),
        _row("rule step, cold", cold),
        _row("rule step, warm", warm),
    ]


def _play(page: Any, goal: int) -> Iterator[float]:
    """Play a goal by the Step button; yield the seconds from each click to the drawn step."""
    box = page.locator("#sg-task-words").locator("textarea, input").first
    box.fill("")
    page.get_by_role("button", name="Browse tasks", exact=True).click()
    page.locator("#sg-tasks .sg-task").first.wait_for()
    while not page.locator(f'#sg-tasks [data-task="{goal}"]').count():
        shown = page.locator("#sg-tasks .sg-task").first.inner_text()
        page.get_by_role("button", name="more ›").click()
        page.wait_for_function(
            "was => document.querySelector('#sg-tasks .sg-task').innerText !== was", arg=shown
        )
    page.locator(f'#sg-tasks [data-task="{goal}"]').click()
    page.wait_for_function("!document.querySelector('#sg-trail .sg-stop')")
    page.wait_for_timeout(500)
    count = 0
    while not page.locator(".sg-reward").count():
        begun = time.perf_counter()
        page.get_by_role("button", name="Step", exact=True).click()
        count += 1
        wanted = f"document.querySelectorAll('#sg-trail .sg-stop').length === {count + 1}"
        page.wait_for_function(wanted, polling="raf")
        yield time.perf_counter() - begun
        page.wait_for_timeout(200)


@contextmanager
def _server() -> Iterator[tuple[str, float]]:
    """Start ``stategate ui``; yield its address and the seconds until it answered."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        for name in ("assets", "tiktoken"):
            (cache() / name).mkdir(exist_ok=True)
            (Path(folder) / name).symlink_to(cache() / name)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        begun = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "ui.cli.main", "ui", "--port", str(port)],
            env={**os.environ, "STATEGATE_HOME": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            yield url, _answered(url, process, begun)
        finally:
            process.kill()
            process.wait()


def _answered(url: str, process: "subprocess.Popen[bytes]", begun: float) -> float:
    while time.perf_counter() - begun < 120:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - loopback
                return time.perf_counter() - begun
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
    raise UserError("the server did not start: try `stategate ui` by hand")


def _row(what: str, seconds: Sequence[float]) -> dict[str, Any]:
    times = [1000 * value for value in seconds]
    ordered = sorted(times)
    return {
        "what": what,
        "n": len(times),
        **with_errors({"ms": times}),
        "median_ms": ordered[len(ordered) // 2],
        "worst_ms": ordered[-1],
    }
