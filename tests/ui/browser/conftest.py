"""A real browser on a real server, with two strangers' plug-ins installed beside it."""

import json
import os
import re
import shutil
import threading
from urllib.parse import urlsplit

import pytest

from stategate.stores.home import cache
from tests.kit import Stranger, completion, program, serving
from tests.ui.browser.steps import compared, tab

#: The packages that the guides show, by name.
STRANGERS = {"garden": "writing-a-world.md", "overlap": "writing-a-node.md"}


def chromium():
    """Return the browser's path, None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser():
    path = chromium()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: .ci/run installs it")
        pytest.skip("no Chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as play:
        engine = play.chromium.launch(executable_path=path, args=flags)
        yield engine
        engine.close()


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A home of its own that shares the downloaded assets, and a folder with two plug-ins."""
    folder = tmp_path_factory.mktemp("ui")
    mine = folder / "home"
    mine.mkdir()
    (cache() / "assets").mkdir(exist_ok=True)
    (mine / "assets").symlink_to(cache() / "assets")
    for name, page in STRANGERS.items():
        (folder / name).mkdir()
        Stranger(page, folder / name)
    return folder


@pytest.fixture(scope="session")
def server(place):
    """The address of one ``stategate ui`` for all tests."""
    sites = [str(place / name / "site") for name in STRANGERS]
    path = os.pathsep.join([*sites, os.environ.get("PYTHONPATH", "")])
    home = {"STATEGATE_HOME": str(place / "home"), "PYTHONPATH": path}
    words, how = ["-m", "stategate", "ui", "--port"], {"env": {**os.environ, **home}}
    with program(lambda port: [*words, str(port)], place / "server.log", cwd=place, **how) as url:
        yield url


@pytest.fixture(scope="module")
def open_page(browser, server):
    """Open the app in a browser of its own; returns the page when its first comparison is there.

    ``on`` is the tab that is shown then. No page may have an error, or ask for another machine.
    """
    pages, hosts = [], set()

    def open_(dark=False, wait=True, on="Episode"):
        scheme = "dark" if dark else "light"
        size = {"width": 1280, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        context.set_default_timeout(60_000)
        page = context.new_page()
        pages.append(page)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on(
            "request", lambda request: hosts.add(re.sub(r"^(\w+://[^/]*).*", r"\1", request.url))
        )
        page.goto(server)
        page.get_by_role("tab", name="Compare", exact=True).wait_for()
        if wait:
            compared(page)
            tab(page, on)
        if wait and on == "Episode":
            page.locator("#sg-page .sg-page").wait_for()
            page.locator("#sg-side .sg-context").wait_for()
        return page

    yield open_
    here = ("http://127.0.0.1:", "data:", "blob:")
    outside = {host for host in hosts if not host.startswith(here)}
    assert not outside, f"asked for something outside this machine: {outside}"
    assert not [problem for page in pages for problem in page.problems]


@pytest.fixture(scope="module")
def page(open_page):
    """A page that the tests of a file share; each begins with a tab and a task of its own."""
    return open_page()


@pytest.fixture
def new_tab(open_page):
    """Open a page for one test alone."""
    pages = []

    def open_(**how):
        pages.append(open_page(**how))
        return pages[-1]

    yield open_
    for page in pages:
        page.context.close()


class FakeModel:
    """An OpenAI-compatible server that answers every request with the first legal action."""

    def __init__(self):
        self.requests = []
        #: The word of a stream before which it waits until a test has seen what it wants to see.
        self.halts_at, self.goes_on = "", threading.Event()
        self.answer = lambda body: json.dumps(
            {"thought": "", "action": "search[speaker]", "search": "speaker"}
        )
        self.url = "http://127.0.0.1:0"
        self.start()

    def start(self):
        """Serve, after :meth:`stop` at the same address again."""
        self._serving = serving(self.respond, urlsplit(self.url).port)
        self.url = f"{self._serving.__enter__()}/v1"

    def stop(self):
        self._serving.__exit__(None, None, None)

    def respond(self, handler):
        """Answer whole, or word by word where a stream is asked for, as servers do."""
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        self.requests.append(body)
        text = self.answer(body)
        handler.send_response(200)
        if not body.get("stream"):
            raw = json.dumps(completion(text, 7, 3)).encode()
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(raw)))
            handler.end_headers()
            handler.wfile.write(raw)
            return
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        for part in re.findall(r"\S+\s*", text):
            if part.strip() == self.halts_at:
                self.goes_on.wait(120)
            delta = {"index": 0, "delta": {"role": "assistant", "content": part}}
            made = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
            row = json.dumps({**made, "choices": [{**delta, "finish_reason": None}]})
            handler.wfile.write(f"data: {row}\n\n".encode())
            handler.wfile.flush()
        handler.wfile.write(b"data: [DONE]\n\n")


@pytest.fixture
def fake_model():
    model = FakeModel()
    yield model
    model.stop()
