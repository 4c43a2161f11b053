"""Speed of serving: conversations at once with a stand-in model, and one middleware decision."""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stategate.evals.core.task import Parts, Row
from stategate.evals.settings import BenchMiddleware, BenchSessions
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.graph.middleware import ContextMiddleware
from stategate.nodes.build_context.messages.decisions import Decisions
from stategate.stores.loopback import from_environment
from stategate.stores.runs import with_errors

_RUNS = 40


def session_parts(settings: BenchSessions) -> Parts:
    """Return a part for each saver: conversations at once, each asking ``turns`` questions in a row."""
    db = None if settings.db is None else from_environment(settings.db)
    places = {"in memory": "memory", "SQLite": "", **({"PostgreSQL": db} if db else {})}
    return {
        name: partial(_sessions, name, where, settings.sessions, settings.turns, settings.seconds)
        for name, where in places.items()
    }


def _sessions(name: str, where: str, sessions: int, turns: int, seconds: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        place = where or str(Path(folder) / "checkpoints.sqlite")
        took, busy, times = asyncio.run(_converse(place, sessions, turns, seconds))
    return [
        {
            "agent": f"{sessions} sessions, {name}",
            "n": len(times),
            "steps_per_s": len(times) / took,
            "at_most_per_s": sessions / seconds,
            "processor_ms_per_step": 1000 * busy / len(times),
            "step_p50_ms": float(np.quantile(times, 0.5)) * 1000,
            "step_p95_ms": float(np.quantile(times, 0.95)) * 1000,
            **with_errors({"beside_model_ms": [1000 * (t - seconds) for t in times]}),
        }
    ]


async def _converse(
    where: str, sessions: int, turns: int, seconds: float
) -> tuple[float, float, list[float]]:
    """Return the seconds in all, by the clock and of the processor, and those of each turn."""
    async with _model(seconds) as url:
        settings: dict[str, Any] = {
            "env": {"kind": "qa", "corpus": "sample"},
            "embedder": "hashing",
            "context": {"kind": "recall", "budget": 1000},
            "llm": {"kind": "openai", "model": "stand-in", "base_url": url},
            "actor": "answer",
            "memory": ["conversation"],
            "checkpoints": where,
            "max_steps": 1000,
        }
        graph = build_graph(load_config(settings))
        mark = time.time_ns()

        async def talk(session: int, count: int) -> list[float]:
            seconds_taken = []
            for turn in range(count):
                started = time.perf_counter()
                await graph.ainvoke(
                    {"task": {"question": f"Why did lake {turn} turn red?"}},
                    {"configurable": {"thread_id": f"bench-{mark}-{session}"}},
                )
                seconds_taken.append(time.perf_counter() - started)
            return seconds_taken

        await talk(-1, 2)  # what is built once is built
        began, busy = time.perf_counter(), time.process_time()
        every = await asyncio.gather(*(talk(i, turns) for i in range(sessions)))
        took, busy = time.perf_counter() - began, time.process_time() - busy
        return took, busy, [t for own in every for t in own]


@asynccontextmanager
async def _model(seconds: float) -> AsyncIterator[str]:
    """Serve answers that take ``seconds`` each, however many are asked for at once."""
    message = {"role": "assistant", "content": "The lake turned red because of algae."}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 100, "completion_tokens": 8, "total_tokens": 108}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "stand-in"}
    raw = json.dumps({**body, "choices": [choice], "usage": usage}).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head_text = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(
                    int(head_text.split(b"content-length:")[1].split(b"\r\n")[0])
                )
                await asyncio.sleep(seconds)
                writer.write(head.encode() + raw)
                await writer.drain()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def middleware_parts(settings: BenchMiddleware) -> Parts:
    """Return parts: milliseconds of one decision without a model, ours beside LangChain's clearing.

    ``no-op`` is within the budget; ``repeat`` repeats earlier decisions; ``cut`` decides anew.
    """
    made, budget = history(settings.messages), settings.budget
    return {
        "no-op": partial(_ours, made, 10**7, "no-op"),
        "repeat": partial(_ours, made, budget, "repeat"),
        "cut": partial(_ours, made, budget, "cut"),
        "clear": partial(_clear, made, budget),
    }


def history(messages: int) -> list[BaseMessage]:
    """Return a history of so many messages: calls in turn with results of about 500 tokens."""
    made: list[BaseMessage] = [HumanMessage("Report the gate code of depot 7.", id="h")]
    for i in range(messages // 2):
        lines = [f'{{"depot": {i}, "row": {n}, "gate": "A{i * n % 9973}"}}' for n in range(25)]
        call = {"name": "read", "args": {"depot": i}, "id": f"c{i}"}
        made.append(AIMessage("", tool_calls=[call], id=f"a{i}"))
        made.append(ToolMessage("\n".join(lines), tool_call_id=f"c{i}", id=f"t{i}"))
    return made[:messages]


def _ours(messages: list[BaseMessage], budget: int, what: str) -> list[Row]:
    middleware = ContextMiddleware(budget=budget)
    first = middleware.context(messages, Decisions()).decisions
    decisions = first.plain() if what == "repeat" and first is not None else {}
    request = _request(messages, {"messages": messages, "stategate": decisions})
    answer: Any = type("Answer", (), {"result": []})()
    return [
        _row(f"compress, {what}", lambda: middleware.wrap_model_call(request, lambda _: answer))
    ]


def _clear(messages: list[BaseMessage], budget: int) -> list[Row]:
    middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=budget)])
    request = _request(messages, {})
    answer: Any = None
    call = lambda: middleware.wrap_model_call(request, lambda _: answer)  # noqa: E731
    return [_row("ClearToolUsesEdit", call)]


def _request(messages: list[BaseMessage], state: Any) -> Any:
    history_copy: Any = list(messages)
    return ModelRequest(model=FakeListChatModel(responses=[""]), messages=history_copy, state=state)


def _row(name: str, work: Callable[[], Any]) -> Row:
    for _ in range(3):
        work()
    spent, cpu = [], []
    for _ in range(_RUNS):
        started, worked = time.perf_counter(), time.process_time()
        work()
        spent.append(1000 * (time.perf_counter() - started))
        cpu.append(1000 * (time.process_time() - worked))
    middle, late = np.percentile(spent, (50, 95))
    row = {"agent": name, "n": _RUNS, "p50_ms": float(middle), "p95_ms": float(late)}
    return {**row, "cpu_ms": float(np.median(cpu))}
