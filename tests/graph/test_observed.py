"""Spans, LangSmith's metadata and log lines come where they were asked for, and nowhere else."""

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stategate.graph import build_graph, load_config
from stategate.graph.observed import LOG, logger
from tests.faults.test_model_servers import GOOD, answer, server
from tests.graph.test_graph import TASK, thread

__all__ = ["server"]
NODES = ["observe", "update_state", "build_context", "act", "write_memory"]


@pytest.fixture
def quiet(monkeypatch):
    for name in (LOG, "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    yield
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def spans(quiet, monkeypatch):
    """Set up an exporter in memory, as a program around the graph would."""
    trace = pytest.importorskip("opentelemetry.trace")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def play(**settings):
    agent = {"actor": "rule", "memory": ["short_term"], "updater": "none", "max_steps": 2}
    return build_graph(load_config({**agent, **settings})).invoke(TASK, thread("watched"))


def test_every_node_is_a_span_with_its_kind_and_step(spans):
    play(context="window")
    seen = [
        (s.name, s.attributes["stategate.kind"], s.attributes["stategate.step"])
        for s in spans.get_finished_spans()
    ]
    kinds = ["webshop", "none", "window", "rule", "short_term"]
    expected = [(f"stategate.{n}", k, 0) for n, k in zip(NODES, kinds, strict=True)]
    assert seen[:5] == expected
    assert seen[6] == ("stategate.update_state", "none", 1)
    (first, *_) = spans.get_finished_spans()
    assert first.attributes["stategate.thread"] == "watched"
    assert first.attributes["stategate.ms"] > 0


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_models_tokens_cost_and_cache_are_told(spans, server, way):
    import asyncio

    url, plan, _ = server
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "total_tokens": 105,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    plan.append(lambda h: answer(h, {**GOOD, "usage": usage}))
    settings = {
        "env": {"kind": "qa", "corpus": "sample"},
        "actor": "answer",
        "memory": ["conversation"],
        "embedder": "hashing",
        "context": {"kind": "recall", "budget": 300},
        "llm": {"kind": "openai", "model": "m", "base_url": url},
    }
    graph, task = build_graph(load_config(settings)), {"task": {"question": "Which lake?"}}
    if way == "invoke":
        graph.invoke(task, thread())
    else:
        asyncio.run(graph.ainvoke(task, thread()))
    (act,) = [s for s in spans.get_finished_spans() if s.name == "stategate.act"]
    told = act.attributes
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (100, 5)
    assert told["gen_ai.usage.cache_read.input_tokens"] == 64
    assert told["stategate.cost"] == 0.0
    assert "lake" not in str(dict(told))


def test_a_node_that_fails_says_so_and_the_error_passes(spans):
    with pytest.raises(Exception, match="goal"):
        build_graph(load_config({"actor": "rule"})).invoke({"task": {"goal": -1}}, thread())
    (span,) = spans.get_finished_spans()
    assert span.attributes["stategate.error"] == "UserError"


def test_nothing_is_told_unasked(quiet, capfd, caplog):
    import subprocess
    import sys

    play()
    assert capfd.readouterr().err == ""
    assert caplog.records == []
    code = (
        "import sys\n"
        "from stategate.graph import build_graph, load_config\n"
        "graph = build_graph(load_config({'actor': 'rule', 'memory': [], 'updater': 'none'}))\n"
        "graph.invoke({'task': {'goal': 3}}, {'configurable': {'thread_id': 't'}})\n"
        "from opentelemetry import trace\n"
        "print(hasattr(trace.get_tracer_provider(), 'add_span_processor'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert done.stderr == ""


def test_a_line_a_node_on_request(quiet, monkeypatch, capfd):
    monkeypatch.setenv(LOG, "steps")
    play()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["node"] for line in lines[:5]] == NODES
    assert {"at", "kind", "step", "thread", "episode", "ms"} <= lines[0].keys()
    assert lines[2]["context_tokens"] > 0
    assert lines[3]["cost"] == 0.0
    assert "lamp" not in json.dumps(lines)


@pytest.mark.timeout(60)
def test_langsmith_hears_each_nodes_facts_where_it_traces(quiet):
    run_helpers = pytest.importorskip("langsmith.run_helpers")
    from langsmith import Client

    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers.get("content-length") or 0)))
            self.send_response(202)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_PATCH = do_POST  # noqa: N815

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    fake = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=fake.serve_forever, daemon=True).start()
    # Without its background threads: each run is sent as it ends.
    where = f"http://127.0.0.1:{fake.server_port}"
    client = Client(api_url=where, api_key="x", auto_batch_tracing=False)
    with run_helpers.tracing_context(enabled=True, client=client):
        play()
    sent = b"".join(bodies).decode(errors="replace")
    for node in NODES:
        assert node in sent
    assert "stategate.kind" in sent
    assert "stategate.context_tokens" in sent
    before = len(bodies)
    play()
    assert len(bodies) == before
    fake.shutdown()
