"""The app's door: hosts, origins, accounts, and the places that a browser may name."""

import asyncio
import re
import time

import pytest
from langchain_core.messages import AIMessage

from stategate.graph.config import load_config
from stategate.stores.errors import UserError
from stategate.ui.app import guard
from stategate.ui.app.guard import bounds


@pytest.fixture(autouse=True)
def unbound():
    yield
    guard.bind("127.0.0.1")


def ask(headers, method="GET", kind="http"):
    """Send one request through the door; returns (status, headers, what the app saw)."""
    sent, seen = [], []

    async def app(scope, receive, send):
        seen.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def send(message):
        sent.append(message)

    raw = [(k.lower().encode(), v.encode()) for k, v in headers.items()]
    scope = {"type": kind, "method": method, "headers": raw, "path": "/"}
    asyncio.run(guard.guard(app)(scope, None, send))
    return sent[0]["status"], sent[0]["headers"], seen


HERE = {"Host": "127.0.0.1:7860"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7860", 200),
        ("localhost:7860", 200),
        ("[::1]:7860", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("evil.example:7860", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
        ("localhost.evil.example:80", 403),
        ("[::1].evil.example", 403),
        ("[::1]@evil.example", 403),
        ("127.0.0.1:7860:80", 403),
        ("[::1", 403),
    ],
)
def test_this_machines_names_alone_are_let_in(host, status):
    for kind in ("http", "websocket"):
        assert ask({"Host": host}, kind=kind)[0] == status


def test_names_are_allowed_by_the_person_at_the_machine(monkeypatch):
    monkeypatch.setenv("STATEGATE_HOSTS", "lab.example.org")
    guard.bind("0.0.0.0")
    assert ask({"Host": "lab.example.org:7860"})[0] == 200
    assert ask({"Host": "192.0.2.7:7860"})[0] == 200  # an address cannot be rebound
    assert ask({"Host": "evil.example:7860"})[0] == 403


@pytest.mark.parametrize(
    ("more", "method", "status"),
    [
        ({}, "POST", 200),
        ({"Origin": "http://127.0.0.1:7860"}, "POST", 200),
        ({"Origin": "http://evil.example"}, "POST", 403),
        ({"Origin": "http://127.0.0.1:9999"}, "POST", 403),
        ({"Origin": "null"}, "POST", 403),
        ({"Origin": "http://[::1"}, "POST", 403),
        ({"Origin": "http://127.0.0.1:7860@evil.example"}, "POST", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "POST", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "GET", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "GET", 200),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, "POST", 403),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, "POST", 200),
    ],
)
def test_pages_of_other_sites_are_refused(more, method, status):
    assert ask({**HERE, **more}, method)[0] == status


#: Every box of the app into which a browser writes freely, by what its words may name.
PLACES = {"sg-qa-corpus", "sg-bank", "sg-msg-where", "sg-run"}
WORDS = {
    "sg-compare-kinds",
    "sg-task",
    "sg-question",
    "sg-memory-words",
    "sg-tab",
}
OUTSIDE = [
    "/etc",
    "/etc/passwd",
    "/srv/../etc/passwd",
    "../elsewhere",
    "~/.ssh",
    "$HOME/notes",
    "sqlite:////etc/x.sqlite",
    "/etc/x.sqlite#thread",
    "beside",
    "$STATEGATE_POSTGRES#notes",
    "postgresql://h/d#notes",
    "https://../../../../etc/x.sqlite",
]


@pytest.fixture
def app(home, tmp_path, monkeypatch):
    """The app of a server with accounts, whose working folder holds a folder ``beside``."""
    pytest.importorskip("gradio")
    from stategate.ui.app.agents import Agents
    from stategate.ui.app.web import make_app

    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path)
    config = load_config("webshop", ["embedder.kind=hashing", "updater.kind=none"])
    guard.bind("127.0.0.1", has_accounts=True, config=config.model_dump(mode="json"))
    return make_app(Agents(config))


def call(app, name, *args):
    """Call the app's function of this name; returns the messages that it answers with."""
    function = next(f.fn for f in app.fns.values() if getattr(f.fn, "__qualname__", "") == name)
    return " ".join(str(value) for value in function(*args).values())


@pytest.mark.parametrize("place", OUTSIDE)
def test_every_field_that_names_a_place_stays_inside(app, place):
    """Whoever is let in by an account reads and writes the home, and nothing beside it."""
    told = {
        "sg-qa-corpus": call(app, "QaTab.choose", "t", place, "recall", "extract"),
        "sg-bank": call(app, "BanksPanel.look", place),
        "sg-msg-where": call(app, "ThreadsTab.open", place, [], 2000),
        "sg-run": call(app, "RunsTab.open", place),
    }
    assert set(told) == PLACES
    for field, text in told.items():
        assert "outside of this app" in text, (field, text)


def test_no_field_was_forgotten(app):
    """A new box for free text is named here: it names places, or it holds words."""
    free = {
        component["props"].get("elem_id")
        for component in app.get_config_file()["components"]
        if component["type"] == "textbox" or component["props"].get("allow_custom_value")
    }
    assert free - {None} == PLACES | WORDS


@pytest.mark.parametrize(
    "values",
    [
        {"memory": [{"path": "/etc/passwd"}]},
        {"context": {"bank": "/srv/../etc/banks"}},
        {"context": {"memory": {"place": {"url": "sqlite:////etc/x.sqlite"}}}},
        {"env": {"corpus": "/proc/self"}},
        {"memory": [{"path": "https://../../../../../../../../etc/x.sqlite"}]},
    ],
)
def test_places_in_a_config_stay_inside(app, values):
    with pytest.raises(UserError, match="outside of this app's folders"):
        bounds.require_config(values)
    guard.bind("127.0.0.1")
    bounds.require_config(values)  # the person at this machine may name any


def test_the_home_what_was_named_at_start_and_chosen_roots_are_inside(home, tmp_path, monkeypatch):
    named = {"env": {"corpus": str(tmp_path / "notes")}}
    guard.bind("0.0.0.0", config=named)
    home.mkdir()
    for place in ("sample", "notes", "gru-webshop", "", str(home / "banks" / "x"), "runs/first"):
        assert bounds.require_place(place) == place
    bounds.require_config(named)
    (home / "link").symlink_to("/etc")
    for place in (str(tmp_path / "other"), str(home / "link" / "x"), str(home / ".." / "x")):
        with pytest.raises(UserError):
            bounds.require_place(place)
    monkeypatch.setenv("STATEGATE_ROOTS", str(tmp_path))
    bounds.require_place(str(tmp_path / "other"))


def test_only_who_sits_at_the_machine_is_not_bounded(monkeypatch):
    for host, has_accounts, names, is_local in (
        ("127.0.0.1", False, "", True),
        ("127.0.0.1", True, "", False),
        ("127.0.0.1", False, "lab.example.org", False),  # behind a proxy
        ("0.0.0.0", False, "", False),
    ):
        monkeypatch.setenv("STATEGATE_HOSTS", names)
        guard.bind(host, has_accounts=has_accounts)
        assert bounds.is_local is is_local


def test_answers_are_drawn_as_text():
    pytest.importorskip("gradio")
    from stategate.nodes.act.answerability import WROTE
    from stategate.ui.app.tabs.qa import chat_entries

    evil = '<div style="position:fixed;inset:0"><a href="http://x">y</a></div> 1 < 2 & 3'
    reason = f"{evil}{WROTE}{evil}"
    said = AIMessage(evil, response_metadata={"reason": reason})
    (drawn,) = chat_entries([said])
    assert re.findall(r"<[^>]*>", drawn["content"]) == ["<p>", "<del>", "</del>", "</p>"]


def test_a_wrong_password_is_slow_for_nobody_else(monkeypatch):
    pytest.importorskip("gradio")
    from stategate.ui.app import web

    monkeypatch.setattr(web, "SLOWED", 1)
    is_right = web.login_of("ann", "a-long-password")
    guesses = [("ann", "a"), ("bea", "a-long-password"), ("", "")] * 20

    async def log_in():
        begun = time.monotonic()
        wrong = asyncio.gather(*(is_right(*guess) for guess in guesses))
        await asyncio.sleep(0)
        assert await is_right("ann", "a-long-password")
        first = time.monotonic() - begun
        assert not any(await wrong)
        return first, time.monotonic() - begun

    right, wrong = asyncio.run(log_in())
    assert right < 1 <= wrong < 10  # sixty wrong ones wait side by side, and nobody for them


def test_every_answer_of_the_app_forbids_other_hosts():
    policy = dict(ask(HERE)[1])[b"content-security-policy"].decode()
    assert "default-src 'self'" in policy
    assert not re.search(r"https?:|\*", policy)
