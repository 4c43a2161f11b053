"""The app's door: hosts, origins, browsers, accounts, folders; and whose memories are whose."""

import asyncio
import re
from types import SimpleNamespace

import pytest

from stategate.stores import accounts
from stategate.stores.errors import UserError
from stategate.ui.app import guard
from stategate.ui.app.guard import COOKIE, Guard, bounds, owned, owner_of


@pytest.fixture(autouse=True)
def unbound():
    yield
    guard.bound_to("127.0.0.1")


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
    asyncio.run(Guard(app)(scope, None, send))
    if kind == "websocket":
        return sent[0]["type"], [], seen
    return sent[0]["status"], sent[0]["headers"], seen


HERE = {"Host": "127.0.0.1:7860"}


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "[::1]:7860", "LOCALHOST"])
def test_this_machines_names_are_let_in(host):
    assert ask({"Host": host})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7860",
        "127.0.0.1.evil.example",
        "",
        "localhost.evil.example:80",
        "[::1].evil.example",
        "[::1]@evil.example",
        "127.0.0.1:7860:80",
        "[::1",
    ],
)
def test_another_name_for_this_machine_is_refused(host):
    assert ask({"Host": host})[0] == 403
    assert ask({"Host": host}, kind="websocket")[0] == "websocket.close"


def test_names_are_allowed_by_the_person_at_the_machine(monkeypatch):
    monkeypatch.setenv("STATEGATE_HOSTS", "lab.example.org")
    guard.bound_to("0.0.0.0")
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


def test_each_browser_gets_a_name_that_no_script_reads_and_keeps_it():
    _, headers, seen = ask(HERE)
    cookie = dict(headers)[b"set-cookie"].decode()
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    name = cookie.partition(";")[0]
    assert seen[0][b"cookie"].decode() == name, "the first request is that browser's already"
    _, headers, _ = ask({**HERE, "Cookie": name})
    assert b"set-cookie" not in dict(headers)
    _, headers, _ = ask({**HERE, "Cookie": f"{COOKIE}=short"})
    assert b"set-cookie" in dict(headers)


def request(browser=None, user=None):
    headers = {"cookie": f"{COOKIE}={browser}"} if browser else {}
    return SimpleNamespace(username=user, headers=headers)


ANN, BOB = request("a" * 32), request("b" * 32)


def test_owners_are_accounts_else_browsers():
    assert owner_of(ANN) != owner_of(BOB) != ""
    assert owner_of(request("a" * 32, "ann")) == owner_of(request("b" * 32, "ann"))
    assert owner_of(request()) == owner_of(None) == ""


def test_memories_of_one_browser_are_not_read_or_erased_by_another(tmp_path, monkeypatch):
    pytest.importorskip("gradio")
    from stategate.stores.memory.long_term import open_long_term
    from stategate.ui.app.tabs.memory import _read

    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    open_long_term()
    mine = f"{owned(owner_of(ANN), 'tab-1')} / stategate"
    assert _read(mine, ANN).user.endswith("tab-1")
    with pytest.raises(UserError, match="no 'web-"):
        _read(mine, BOB)
    assert _read("default / stategate", BOB).user == "default"  # this machine's command line
    guard.bound_to("0.0.0.0")
    with pytest.raises(UserError):
        _read("default / stategate", BOB)


def test_uploads_of_one_browser_are_another_ones_unknown_corpus(tmp_path, monkeypatch):
    from stategate.graph.config import load_config
    from stategate.stores.corpus.corpus import Corpus
    from stategate.stores.corpus.documents import Document
    from stategate.ui.app.agents import Agents
    from stategate.ui.app.conversation import Conversation
    from stategate.ui.app.tab_sessions import TabSessions

    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    tabs = TabSessions(tmp_path / "tabs.sqlite")
    tabs.write("tab-a/owner", {"owner": owner_of(ANN)})
    tabs.write("tab-b/owner", {"owner": owner_of(BOB)})
    name = owned(owner_of(ANN), "uploads-1")
    Corpus(name).sync("o", [Document("d", "o", "t", "secret")])

    agents = Agents(load_config("qa", ["embedder.kind=hashing"]))

    def talk(tab):
        return Conversation(tab, agents, lambda: agents.config, tabs)

    talk("tab-a").choose(corpus=name)
    with pytest.raises(UserError, match="of yours here"):
        talk("tab-b").choose(corpus=name)
    with pytest.raises(UserError, match="outside of this app's folders"):
        talk("tab-b").choose(corpus="/etc")
    talk("tab-b").choose(corpus="$STATEGATE_POSTGRES#notes")  # whoever is here may name it
    guard.bound_to("0.0.0.0")
    with pytest.raises(UserError, match="of yours here"):
        talk("tab-a").choose(corpus="$STATEGATE_POSTGRES#notes")
    guard.bound_to("127.0.0.1")
    assert talk("tab-a").config.context.memory is None or owner_of(ANN) in str(talk("tab-a").config)


def test_places_in_a_config_stay_inside(monkeypatch, tmp_path):
    inside = {"env": {"data": "sample"}, "memory": [{"path": str(tmp_path / "t.sqlite")}]}
    bounds.require_config(inside)
    for bad in (
        {"memory": [{"path": "/etc/passwd"}]},
        {"context": {"bank": "/srv/../etc/banks"}},
        {"context": {"memory": {"place": {"url": "sqlite:////etc/x.sqlite"}}}},
        {"env": {"corpus": "/proc/self"}},
        {"memory": [{"path": "/etc/x://y.sqlite"}]},
        {"memory": [{"path": "https://../../../../../../../../etc/x.sqlite"}]},
    ):
        with pytest.raises(UserError, match="outside of this app's folders"):
            bounds.require_config(bad)
    guard.bound_to("0.0.0.0")
    with pytest.raises(UserError):
        bounds.require_config(inside)
    monkeypatch.setenv("STATEGATE_ROOTS", str(tmp_path))
    bounds.require_config(inside)


def test_accounts_are_hashes_in_a_file(tmp_path):
    file = tmp_path / "accounts"
    file.write_text(
        f"# ours\n{accounts.hashed('ann', 'correct horse')}\n{accounts.hashed('bob', 'battery 9')}\n"
    )
    assert "horse" not in file.read_text()
    check = accounts.checks(accounts.read_accounts(file))
    assert check("ann", "correct horse")
    assert check("bob", "battery 9")
    for user, password in (("ann", "battery 9"), ("ann", ""), ("eve", "correct horse"), ("", "")):
        assert not check(user, password)
    file.write_text("ann:plain\n")
    with pytest.raises(UserError, match="line 1 is no account"):
        accounts.read_accounts(file)


def test_answers_are_drawn_as_text():
    gr = pytest.importorskip("gradio")
    from stategate.ui.app.tabs.qa import QaTab

    evil = '<div style="position:fixed;inset:0"><a href="http://x">y</a></div> 1 < 2 & 3'
    settings = {"corpus": "sample", "context": "recall", "actor": "extract", "user": "ann"}

    def answer(question, on_text):
        on_text(evil)

    talk = SimpleNamespace(
        messages=[{"role": "assistant", "content": evil}],
        settings=settings,
        last=None,
        owner="",
        ask=answer,
        epoch=0,
    )
    with gr.Blocks():
        tab = QaTab(SimpleNamespace(), SimpleNamespace(of=lambda name: talk))
    drawn = [
        update[tab.chat] for update in (tab.show("t"), *tab.ask("t", evil)) if tab.chat in update
    ]
    said = [message["content"] for messages in drawn for message in messages]
    assert len(said) >= 4
    assert not any("<" in text for text in said)


def test_every_answer_of_the_app_forbids_other_hosts():
    pytest.importorskip("gradio")
    from stategate.ui.app.web import ContentPolicy

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "headers": [(b"a", b"b")]})

    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(ContentPolicy(app)({"type": "http"}, None, send))
    policy = dict(sent[0]["headers"])[b"content-security-policy"].decode()
    assert "default-src 'self'" in policy
    assert not re.search(r"https?:|\*", policy)
