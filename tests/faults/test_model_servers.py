"""Model servers that misbehave in every way: bounded, one line, nothing raw, nothing hangs."""

import asyncio
import gzip
import json
import socket
import time
from contextlib import suppress

import pytest
from langchain_core.messages import HumanMessage

from stategate.nodes.act.chat import Chat
from stategate.nodes.act.replies import TalkingActor
from stategate.nodes.models import calls
from stategate.nodes.models.calls import ask
from stategate.nodes.models.embedders import OpenAIEmbedder
from stategate.nodes.models.llms import OpenAILlm
from stategate.nodes.protocols import Decision, Piece
from stategate.nodes.resources import Resources
from stategate.stores.corpus import documents
from stategate.stores.corpus.documents import read_web
from stategate.stores.errors import ModelUnavailable, UserError
from tests.kit import completion, context_of, serving

GOOD = completion("ok")
DEADLINE = 1.0  # seconds of a call here


def answer(handler, body, status=200, kind="application/json", **headers):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("content-type", kind)
    handler.send_header("content-length", str(len(raw)))
    handler.send_header("connection", "close")  # it does close: a client must not ask on it again
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(raw)


def begin(handler, kind="application/json", **headers):
    handler.send_response(200)
    for name, value in {"content-type": kind, **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def drip_of(handler, pieces):
    for piece in pieces:
        handler.wfile.write(piece)
        handler.wfile.flush()
        time.sleep(0.1)


def drip(handler):
    begin(handler, content_length="100000")
    drip_of(handler, [b" "] * 200)


def drip_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    drip_of(handler, [f"x-{i}: y\r\n".encode() for i in range(200)])


def cut(handler):
    begin(handler, content_length="100000")
    handler.wfile.write(b'{"id": "x", "choi')
    handler.connection.shutdown(socket.SHUT_RDWR)


def huge(handler):
    begin(handler)
    for _ in range(100):
        handler.wfile.write(b" " * (1 << 20))


def drip_events(handler):
    """Send a stream whose every event is in time, and which does not end."""
    begin(handler, "text/event-stream")
    piece = {"index": 0, "delta": {"role": "assistant", "content": "and "}}
    event = {**GOOD, "object": "chat.completion.chunk", "choices": [piece], "usage": None}
    drip_of(handler, [f"data: {json.dumps(event)}\n\n".encode()] * 200)


FAULTS = {
    "html": lambda h: answer(h, b"<html><body>Welcome</body></html>", kind="text/html"),
    "empty object": lambda h: answer(h, {}),
    "no choices": lambda h: answer(h, {**GOOD, "choices": []}),
    "null choices": lambda h: answer(h, {**GOOD, "choices": None}),
    "wrong choices": lambda h: answer(h, {**GOOD, "choices": [{"message": 3}]}),
    "a number": lambda h: answer(h, 7),
    "null": lambda h: answer(h, None),
    "empty": lambda h: answer(h, b""),
    "no JSON": lambda h: answer(h, b'{"id": '),
    "deep": lambda h: answer(h, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "error object": lambda h: answer(h, {"error": {"message": "out of memory", "code": 500}}),
    "500": lambda h: answer(h, {"error": {"message": "broken"}}, 500),
    "502": lambda h: answer(h, b"<html>bad gateway", 502, "text/html"),
    "429": lambda h: answer(h, {"error": {"message": "slow down"}}, 429, retry_after="3600"),
    "429 soon": lambda h: answer(h, {"error": {"message": "busy"}}, 429, retry_after="1"),
    "429 late": lambda h: answer(h, {"error": {"message": "busy"}}, 429, retry_after="12"),
    "401": lambda h: answer(h, {"error": {"message": "no such key"}}, 401),
    "404": lambda h: answer(h, b"not here", 404, "text/plain"),
    "redirect": lambda h: answer(h, b"", 307, location="http://127.0.0.1:9/v1/chat/completions"),
    "drip": drip,
    "drip headers": drip_headers,
    "cut": cut,
    "silent": lambda h: time.sleep(20),
    "huge": huge,
}


#: What is told of some of them: the server's reason, and what to do.
TOLD = {
    "error object": r"answers with an error \(out of memory\): start it",
    "429": r"429 - slow down\): it asks to wait 3600 s; ask again then",
    "429 late": r"it asks to wait 12 s; ask again then",
    "401": r"refused the request \(.*no such key\): check base_url .* the key",
    "redirect": r"\(redirects are not followed\)",
}


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    """Let OpenAI's client ask again at once: its pauses of 1.1 to 1.5 s would outlast the deadline."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


@pytest.fixture
def server():
    """Yield (url, what it does, what it was asked)."""
    plan, asked = [], []

    def misbehave(handler):
        handler.rfile.read(int(handler.headers.get("content-length") or 0))
        asked.append(time.monotonic())
        with suppress(OSError):
            plan[min(len(asked), len(plan)) - 1](handler)
        handler.close_connection = True

    with serving(misbehave) as url:
        yield f"{url}/v1", plan, asked


def resources(url, deadline=DEADLINE):
    return Resources(llm=OpenAILlm(model="m", base_url=url, timeout=deadline))


async def _once(context, ask):
    return Decision(str((await ask([HumanMessage("hi")])).text))


@pytest.fixture(params=["in a thread", "async"])
def call(request):
    """Return what asks a model once, in either way."""
    if request.param == "async":
        return lambda mine: asyncio.run(TalkingActor(mine, _once).adecide(None, 0))
    return lambda mine: TalkingActor(mine, _once)(None, 0)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_one_line_within_the_deadline(server, name):
    url, plan, _ = server
    plan.append(FAULTS[name])
    mine = resources(url)
    mine.llm  # noqa: B018 - imports a client: not the call's seconds
    line = rf"\Athe model server at {url} .*{TOLD.get(name, '')}.*\Z"
    started = time.monotonic()
    with pytest.raises(UserError, match=line) as error:
        ask(mine, [HumanMessage("hi")], 9)
    assert time.monotonic() - started < DEADLINE + 2
    refused = name in ("401", "404", "redirect")
    assert isinstance(error.value, ModelUnavailable) != refused, error.value


@pytest.mark.parametrize("name", ["silent", "gone"])
def test_a_server_without_an_answer_is_one_line_for_an_actor(server, call, name):
    url, plan, _ = server
    plan.append(FAULTS["silent"])
    nobody = "http://127.0.0.1:9/v1"
    problem = "does not answer" if name == "gone" else "gives no whole answer within"
    with pytest.raises(ModelUnavailable, match=problem):
        call(resources(nobody if name == "gone" else url))


def test_broken_emoji_of_a_model_reach_no_request(server):
    url, plan, asked = server
    plan.append(lambda h: answer(h, completion("click[x]\ud800")))
    context = context_of(Piece("p", "line", "A room.\n", ("look",), 1, 1))
    decision = Chat().build(resources(url))(context, 0)
    assert (decision.attempts, decision.fallback) == (2, "unreadable reply: click[x]?")
    assert ask(resources(url), [HumanMessage("\ud800")], 9) == "click[x]?"
    assert len(asked) == 3


def test_a_server_that_refuses_a_form_is_asked_in_words_from_then_on(server):
    url, plan, asked = server
    chosen = completion('{"action": "look"}')
    plan += [lambda h: answer(h, {"error": {"message": "not here"}}, 400)]
    plan += [lambda h: answer(h, chosen)]
    patient = resources(url, 20.0)  # three answers are due, beside other tests
    act = Chat().build(patient)
    context = context_of(Piece("p", "line", "A room.\n", ("look",), 1, 1))
    for requests in (2, 3):
        assert act(context, 0).action == "look"
        assert len(asked) == requests
    plan[:] = [lambda h: answer(h, {"error": {"message": "too long"}}, 400)]
    with pytest.raises(UserError, match="too long"):
        Chat().build(patient)(context, 0)


def test_a_key_does_not_follow_a_redirect_to_another_host(server, call, monkeypatch):
    """The other host is this server under another name: what came there would be asked twice."""
    url, plan, asked = server
    elsewhere = url.replace("127.0.0.1", "localhost") + "/chat/completions"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    mine = resources(url)
    embedder = OpenAIEmbedder(base_url=url, dimension=2).build(Resources())
    for number, status in enumerate([301, 302, 303, 307, 308]):
        plan[:] = [lambda h, status=status: answer(h, b"", status, location=elsewhere)]
        with pytest.raises(UserError) as error:
            call(mine)
        assert "sk-secret" not in str(error.value)
        with pytest.raises(UserError, match="refused"):
            embedder.embed([f"redirect {status} {time.time()}"])
        assert len(asked) == 2 * number + 2


def test_a_stream_that_drips_ends_at_the_deadline(server):
    url, plan, _ = server
    plan.append(drip_events)
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match="within 1 s"):
        calls.run(calls.guarded(resources(url).llm, _heard))
    assert time.monotonic() - started < 10  # the stream itself would take 20


async def _heard(model):
    return [piece async for piece in model.astream("hi")]


BOMB = gzip.compress(b" " * (60 << 20), 9)
BOMBS = {
    "gzip": BOMB,
    "gzip, gzip": gzip.compress(BOMB, 9),
    "zstd": b"(\xb5/\xfd",
}


@pytest.mark.parametrize("packing", BOMBS)
def test_a_packed_page_unpacks_to_no_more_than_it_may(server, packing):
    url, plan, _ = server
    plan += [lambda h: answer(h, BOMBS[packing], content_encoding=packing)]
    skipped = read_web(url)
    assert "over 20 MB" in skipped.why or "packed by" in skipped.why


@pytest.mark.usefixtures("home")
def test_a_broken_server_is_asked_again_and_its_packed_answer_is_read(server, call):
    url, plan, asked = server
    body, page = gzip.compress(json.dumps(GOOD).encode()), gzip.compress(b"<p>Sea.")
    plan += [FAULTS["500"], lambda h: answer(h, body, content_encoding="gzip")]
    assert call(resources(url)).action == "ok"
    assert len(asked) == 2
    plan += [lambda h: answer(h, page, kind="text/html", content_encoding="gzip")]
    assert read_web(url).text == "Sea."


def test_a_page_that_drips_is_given_up(server, monkeypatch):
    monkeypatch.setattr(documents, "_PATIENCE", 0.3)
    url, plan, _ = server
    plan.append(drip)
    assert "within 0 s" in read_web(url).why
