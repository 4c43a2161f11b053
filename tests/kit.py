"""Fixtures and helpers that tests share; ``tests/conftest.py`` hands the fixtures to every folder."""

import base64
import gzip
import inspect
import json
import os
import pickle
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import Field

from stategate.envs.protocols import ANSWER, Chunk, Fragment, FragmentRole
from stategate.envs.webshop.reward import score
from stategate.nodes.build_context.assemble import line_piece
from stategate.nodes.protocols import BuiltContext, LlmParams, Piece
from stategate.nodes.retrieval.quoting import quote

#: The real data, where this machine has them.
DATA = Path(
    os.environ.get("STATEGATE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)


def ceiling(shop, number):
    """Return the reward of buying exactly a goal's product with exactly its options."""
    goal = shop.goals[number]
    options = goal["goal_options"]
    values = options.values() if isinstance(options, dict) else options
    chosen = {str(i): str(value) for i, value in enumerate(values)}
    return score(shop.products[goal["asin"]], goal, shop.prices[goal["asin"]], chosen)[0]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of the test's own, and a terminal's width; returns the folder."""
    from stategate.stores.tokens import encoding

    encoding()  # found in the user's own cache
    folder = tmp_path / "home"
    monkeypatch.setenv("STATEGATE_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.fixture(scope="session")
def sample_shop():
    """The sample shop, loaded once. Sessions are values, so tests may share it."""
    from stategate import WebShop

    return WebShop.load("sample")


@pytest.fixture
def user_memory(tmp_path):
    """The memory of one user, Ana, in a file, with an embedder that needs no model."""
    from stategate import Memory
    from stategate.nodes.models.embedders import HashingEmbedder

    return Memory(str(tmp_path / "memory.sqlite"), embedder=HashingEmbedder(), user="ana")


class FakeLlm(LlmParams):
    """Fixed replies, in order and then from the start again."""

    kind: Literal["fake"] = "fake"
    replies: tuple[str, ...] = Field(default=("ok",), min_length=1)

    def build(self, resources: Any) -> FakeListChatModel:
        """Return the fake model; it takes and ignores any settings of a call."""
        return FakeListChatModel(responses=list(self.replies))


@dataclass(frozen=True)
class Request:
    """What a fake server was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


#: Returns status, content type and body for a request.
Respond = Callable[[Request], tuple[int, str, bytes]]


@contextmanager
def serving(do: Callable[[BaseHTTPRequestHandler], None], port: int = 0) -> Iterator[str]:
    """Serve requests of either method by ``do`` on a free port of this machine; yields the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            do(self)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *words: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

        def handle_error(self, *about: object) -> None:
            pass  # a client that went away

    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def program(words: Callable[[int], Sequence[str]], log: Path, **how: Any) -> Iterator[str]:
    """Run Python with ``words`` of a free port, its output in ``log``; yields the URL that serves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("ab") as out:
        process = subprocess.Popen([sys.executable, *words(port)], stdout=out, stderr=out, **how)
    deadline = time.monotonic() + 120
    try:
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            is_starting = process.poll() is None and time.monotonic() < deadline
            assert is_starting, log.read_text()[-2000:]
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(20)


@contextmanager
def http_server(respond: Respond) -> Iterator[tuple[str, list[Request]]]:
    """Serve ``respond`` on a port of this machine; yields the URL and what was asked so far."""
    asked: list[Request] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        request = Request(handler.command, handler.path, dict(handler.headers), body)
        asked.append(request)
        status, kind, content = respond(request)
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    with serving(answer) as url:
        yield url, asked


def completion(text: str, tokens_in: int = 1, tokens_out: int = 1) -> dict[str, Any]:
    """Return a chat completion as OpenAI's servers write it."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {**usage, "total_tokens": tokens_in + tokens_out},
    }


_CALL = """
import base64, importlib.util, pickle, sys
path, name, arguments = sys.argv[1:]
spec = importlib.util.spec_from_file_location("called", path)
module = importlib.util.module_from_spec(spec)
sys.modules["called"] = module
spec.loader.exec_module(module)
print("ready", flush=True)
sys.stdin.readline()
getattr(module, name)(*pickle.loads(base64.b64decode(arguments)))
"""


def run_processes(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[int]:
    """Call a test module's ``function`` in fresh processes, begun at one moment; return exit codes."""
    path = inspect.getsourcefile(function)
    root = str(Path(__file__).resolve().parents[1])
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", _CALL, str(path), function.__name__),
                base64.b64encode(pickle.dumps(arguments)).decode(),
            ],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for arguments in calls
    ]
    for process in started:
        process.stdout.readline()
    for process in started:
        process.stdin.write(b"go\n")
        process.stdin.close()
    return [process.wait(120) for process in started]


def piece_of(kind: str, *said: tuple[FragmentRole, str], actions: Sequence[str] = ()) -> Piece:
    """Return a piece of ``kind`` whose fragments have these roles and texts."""
    piece = line_piece(kind, kind, [Fragment(text, role=role) for role, text in said])
    return Piece(**{**vars(piece), "actions": tuple(actions)})


def step_piece(action: str, outcome: str = "", note: str = "", kind: str = "event") -> Piece:
    """Return the piece of an earlier step."""
    said: list[tuple[FragmentRole, str]] = [("lead", "1. "), ("action", action)]
    said += [("lead", " => "), ("outcome", outcome)] if outcome else []
    said += [("lead", "\n - "), ("note", note)] if note else []
    return piece_of(kind, *said, ("lead", "\n"))


def context_of(*pieces: Piece) -> BuiltContext:
    """Return the context that ``pieces`` make."""
    text = "".join(piece.text for piece in pieces)
    tokens = sum(piece.tokens_after for piece in pieces)
    return BuiltContext((HumanMessage(text),), pieces, tokens)


def run_command(*words: object, stdin: str | None = None) -> Any:
    """Run ``stategate WORDS`` in this process; returns exit code, stdout, stderr and both as output."""
    from typer.testing import CliRunner

    from stategate.ui.cli.main import app

    return CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def call(*words: object, stdin: str | None = None) -> str:
    """Return what ``stategate WORDS`` prints; it must succeed."""
    result = run_command(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def refused(*words: object, stdin: str | None = None) -> str:
    """Return the last line of a refusal: exit code 2 and one line, after lines of progress."""
    result = run_command(*words, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    line = str(result.stderr.strip().splitlines()[-1])
    assert line.startswith("stategate: ")
    return line


def text_in(context: BuiltContext, *kinds: str) -> str:
    """Return the shown text of the pieces of these kinds."""
    return "".join(piece.text for piece in context.visible(*kinds))


def passage_piece(text: str, title: str = "", score: float | None = None) -> Piece:
    """Return a quoted passage."""
    return line_piece("passage", "passage", quote(1, title, text), score=score)


def fact_piece(day: str, said: str) -> Piece:
    """Return what is remembered: what the user ``said``."""
    dated: list[tuple[FragmentRole, str]] = [("lead", "On "), ("day", day)]
    return piece_of("fact", *dated, ("lead", ' the user said: "'), ("said", said), ("lead", '"\n'))


def question_piece(question: str, about: str = "") -> Piece:
    """Return the question that closes a conversation's prompt, and what it follows up on."""
    return piece_of(
        "question",
        *((("lead", "About: "), ("about", about)) if about else ()),
        ("lead", "Question: "),
        ("instruction", question),
        ("lead", "\nAnswer:\n"),
        actions=(ANSWER,),
    )


class Passages:
    """A source of passages with these texts, each its own title; an open one can be answered."""

    def __init__(self, texts: Sequence[str], is_open: bool = True) -> None:
        ask = (Chunk("ask", "ask", "", (ANSWER,), {}, "pinned"),) if is_open else ()
        self._found = [Chunk(f"p{i}", "passage", t, (), {"title": t}) for i, t in enumerate(texts)]
        self._chunks = (*ask, *self._found)

    def all(self) -> Sequence[Chunk]:
        return self._chunks

    def search(self, vector: Any, k: int) -> list[tuple[Chunk, float]]:
        return [(chunk, 0.5) for chunk in self._found[:k]]

    def find(self, query: str, k: int, how: str = "parent") -> list[tuple[Chunk, float]]:
        return self.search(None, k)


class Scripted(GenericFakeChatModel):
    """Makes given calls, one after another, and then answers; takes tools and ignores them."""

    @classmethod
    def of(cls, calls: Sequence[tuple[str, dict[str, Any]]], answer: str) -> "Scripted":
        """Return a model that makes ``calls`` (tool, arguments) and then says ``answer``."""
        turns = [
            AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{i}"}])
            for i, (name, args) in enumerate(calls)
        ]
        return cls(messages=iter([*turns, AIMessage(answer)]))

    def bind_tools(self, tools: Any, **extra: Any) -> Any:
        return self


def qa_settings(corpus: object, memory: object) -> dict[str, Any]:
    """Return the config of a conversation about ``corpus``, which remembers in the file ``memory``."""
    place = {"url": str(memory)}
    return {
        "env": {"kind": "qa", "corpus": str(corpus), "chunking": "fixed-64-10"},
        "embedder": "hashing",
        "context": {"kind": "recall", "budget": 800, "memory": {"place": place}},
        "actor": {"kind": "extract", "sentences": 1},
        "memory": [
            {"kind": "conversation"},
            {"kind": "long_term", "place": place},
        ],
        "max_steps": 100,
    }


def built_contexts(graph: Any, task: dict[str, Any], thread: str = "t") -> list[BuiltContext]:
    """Play ``task``; returns the context of each step."""
    played = graph.stream(
        {"task": task}, {"configurable": {"thread_id": thread}}, stream_mode="updates"
    )
    return [step["build_context"]["context"] for step in played if "build_context" in step]


def rule_moves(goal: int) -> list[str]:
    """Return the actions by which the ``rule`` actor plays a goal of the sample shop."""
    from stategate.graph import build_graph, load_config

    settled = ["updater.kind=none", "context.kind=full", "actor.kind=rule", "memory=[short_term]"]
    graph = build_graph(load_config("webshop", settled), checkpointer=False)
    updates = graph.stream({"task": {"goal": goal}}, stream_mode="updates")
    return [update["act"]["action"] for update in updates if "act" in update]


def golden(world: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of a world's golden file."""
    with gzip.open(DATA / world / "golden" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def play_live(config, agents, goals, out, overrides=(), **more):
    """Play goals with each agent into a run directory; return the summary."""
    from stategate.evals.settings import Worlds

    named = tuple(f"{name}={','.join(own) or 'reader=learned'}" for name, own in agents.items())
    how = {"config": config, "goals": goals, "overrides": overrides, **more}
    return Worlds(agent=named, out=str(out), **how).run()


class Stranger:
    """A package outside this repository: the files that a page of ``docs/`` shows, installed apart."""

    def __init__(self, page: str, folder: Path) -> None:
        self.folder, root = folder, Path(__file__).parents[1]
        text = (root / "docs" / page).read_text()
        for name, content in re.findall(r"```\w+ file=(\S+)\n(.*?)```", text, re.DOTALL):
            (folder / name).write_text(content)
        words = ["pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
        target = [str(folder / "site"), str(folder)]
        subprocess.run([sys.executable, "-m", *words, *target], check=True, timeout=200)
        paths = os.pathsep.join([target[0], str(folder), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, "PYTHONPATH": paths}

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the package's folder."""
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=250,
        )

    def stategate(self, *words: str) -> str:
        """Return what ``stategate WORDS`` prints there; it must succeed."""
        done = self.python("-m", "stategate", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
