"""What middleware itself costs at a history of 200 messages: ours beside LangChain's own.

Milliseconds of one call's decision, without the model. ``no-op`` is within the budget; ``repeat``
repeats earlier decisions; ``cut`` decides everything anew (its texts were read before: warm).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stategate.evals.agents.tasks import make_task
from stategate.evals.core.task import Row
from stategate.graph.middleware import ContextMiddleware
from stategate.nodes.build_context.messages.decisions import Decisions

_RUNS = 40


def history(messages: int = 200, seed: int = 0) -> list[BaseMessage]:
    """Return a history of so many messages, made of generated tasks' results."""
    made: list[BaseMessage] = [HumanMessage("Report the gate code of Quellmoor depot.", id="h")]
    while len(made) < messages - 1:
        for step in make_task("json", seed).steps:
            name = f"c{len(made)}"
            call = {"name": step.tool, "args": {"argument": step.argument}, "id": name}
            made.append(AIMessage("", tool_calls=[call], id=f"a{len(made)}"))
            made.append(ToolMessage(step.result, tool_call_id=name, id=f"t{len(made)}"))
        seed += 1
    return made[: messages - 1] if messages % 2 == 0 else made[:messages]


def middleware_parts(messages: int = 200, budget: int = 16_000, seed: int = 0) -> Any:
    """Return a part for each thing that is measured."""
    made = history(messages, seed)
    return {
        "no-op": partial(_ours, made, 10**7, "no-op"),
        "repeat": partial(_ours, made, budget, "repeat"),
        "cut": partial(_ours, made, budget, "cut"),
        "clear": partial(_clear, made, budget),
        "summarize": partial(_summarize, made, budget),
    }


def _ours(messages: list[BaseMessage], budget: int, what: str) -> list[Row]:
    middleware = ContextMiddleware(budget=budget)
    first = middleware.context(messages, Decisions()).decisions
    kept = first.plain() if what == "repeat" and first is not None else {}
    state: Any = {"messages": messages, "stategate": kept}
    model = FakeListChatModel(responses=[""])
    request: Any = ModelRequest(model=model, messages=list(messages), state=state)  # type: ignore[arg-type]
    answer: Any = type("Answer", (), {"result": []})()
    return [
        _row(f"compress, {what}", lambda: middleware.wrap_model_call(request, lambda _: answer))
    ]


def _clear(messages: list[BaseMessage], budget: int) -> list[Row]:
    middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=budget)])
    request: Any = ModelRequest(
        model=FakeListChatModel(responses=[""]),
        messages=messages,  # type: ignore[arg-type]
    )
    answer: Any = None
    return [
        _row("ClearToolUsesEdit", lambda: middleware.wrap_model_call(request, lambda _: answer))
    ]


def _summarize(messages: list[BaseMessage], budget: int) -> list[Row]:
    middleware = SummarizationMiddleware(
        FakeListChatModel(responses=[""]), trigger=("tokens", budget), summarizer=lambda _: "short"
    )
    state: Any = {"messages": messages}
    runtime: Any = None
    return [
        _row(
            "SummarizationMiddleware (its model's own time not counted)",
            lambda: middleware.before_model(state, runtime),
        )
    ]


def _row(name: str, work: Callable[[], Any]) -> Row:
    for _ in range(3):
        work()
    spent, cpu = [], []
    for _ in range(_RUNS):
        started, worked = time.perf_counter(), time.process_time()
        work()
        spent.append(1000 * (time.perf_counter() - started))
        cpu.append(1000 * (time.process_time() - worked))
    return {
        "agent": name,
        "n": _RUNS,
        "p50_ms": float(np.median(spent)),
        "p95_ms": float(np.percentile(spent, 95)),
        "cpu_ms": float(np.median(cpu)),
    }
