"""A step without the model: observe, update the state, build the context; cold and warm cache.

Beside it a bare LangGraph loop of five empty nodes, the same supersteps that an agent's step has.
"""

import time
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np

from envs.webshop import WebShop
from envs.webshop.expert import play
from evals.bench_walk import walk
from evals.statistics import mean, standard_error
from graph.build import build_graph
from graph.config import load_config
from graph.state import State
from nodes.models.embedders import MiniLM
from nodes.resources import Resources
from nodes.update_state.kinds import Gru
from stores.traces import Event


def measure_step(data: str, seed: int = 0, goals: int = 10) -> list[dict[str, Any]]:
    """Return rows: milliseconds a step for each context, its parts, and the bare loop.

    Cold: no text of the page was embedded before (embeddings are computed, not looked up); warm: all
    were. ``processor`` is what a step costs in processor time, which a busy machine does not stretch.
    The expert's moves are followed, so every context sees the same pages.
    """
    rows: list[dict[str, Any]] = []
    for kind in ("full", "retrieve", "compress"):
        overrides = [f"context.kind={kind}", "context.budget=300", f"env.data={data}"]
        graph = build_graph(load_config("webshop", overrides), checkpointer=False)
        agent = graph.agent.bound()  # type: ignore[attr-defined]
        agent.resources.embedder.embed(["warm up the model"])
        agent.context(_first(agent))  # loads what the builder needs
        times: dict[str, list[float]] = {"update": [], "build": [], "step": [], "processor": []}
        for goal in range(goals):
            for _ in walk(agent, goal, seed):  # so that texts are in the cache
                pass
            _timed(agent, goal, seed, times)
        row: dict[str, Any] = {"agent": f"{kind}, warm", "n": len(times["step"])}
        for name, values in times.items():
            row |= {f"{name}_ms": mean(values), f"{name}_ms_se": standard_error(values)}
        rows.append(row)
    rows.append(_cold(goals))
    rows.append(_bare_loop())
    base = rows[-1]["step_ms"]
    for row in rows:
        row["times_bare_loop"] = row["step_ms"] / base
    return rows


def _first(agent: Any) -> State:
    state: State = agent.observe({"task": {"goal": 0}}, {})
    return state


def _timed(agent: Any, goal: int, seed: int, times: dict[str, list[float]]) -> None:
    for walked in walk(agent, goal, seed):
        for name, a, b in (("update", 1, 2), ("build", 2, 3), ("step", 0, 3)):
            times[name].append(1000 * (walked.marks[b] - walked.marks[a]))
        times["processor"].append(1000 * walked.processor)


def _cold(goals: int) -> dict[str, Any]:
    """Measure an update whose texts were never embedded: each has a word of its own."""
    embedder = MiniLM().build(Resources())
    updater = Gru().build(Resources(None, MiniLM()))
    embedder.embed(["warm up the model"])
    shop = WebShop.load("sample")
    values: list[float] = []
    for goal in range(goals):
        unique = f"{time.time_ns()}"
        events = [e for e in play(shop, goal, 0).events if e.kind in ("OBS", "ACT")]
        state = updater.initial()
        for event in events:
            fresh = Event(event.kind, f"{event.text} {unique}", event.t)
            started = time.perf_counter()
            state = np.asarray(updater.update(state, [fresh]))
            values.append(1000 * (time.perf_counter() - started))
    return {
        "agent": "update per event, cold", "n": len(values),
        "step_ms": mean(values), "step_ms_se": standard_error(values),
    }  # fmt: skip


def _bare_loop(steps: int = 200) -> dict[str, Any]:
    """Measure a loop of five nodes that do nothing, without checkpoints."""
    from langgraph.graph import END, START, StateGraph

    class Count(TypedDict):
        n: int

    builder: Any = StateGraph(Count)
    names = ["observe", "update_state", "build_context", "act", "write_memory"]
    nothing: Callable[[Count], dict[str, int]] = lambda state: {"n": state["n"]}  # noqa: E731
    for name in names[:-1]:
        builder.add_node(name, nothing)
    builder.add_node(names[-1], lambda state: {"n": state["n"] + 1})
    for a, b in zip([START, *names], names, strict=False):
        builder.add_edge(a, b)
    builder.add_conditional_edges(names[-1], lambda s: END if s["n"] >= steps else names[0])
    graph = builder.compile()
    values = []
    for _ in range(5):
        started = time.perf_counter()
        graph.invoke({"n": 0}, {"recursion_limit": 10 * steps})
        values.append(1000 * (time.perf_counter() - started) / steps)
    return {
        "agent": "bare LangGraph loop", "n": len(values),
        "step_ms": mean(values), "step_ms_se": standard_error(values),
    }  # fmt: skip
