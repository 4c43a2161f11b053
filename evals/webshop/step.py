"""A step without the model: observe, update the state, build the context; cold and warm cache.

Beside it a bare LangGraph loop of five empty nodes, the same supersteps that an agent's step has.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np

from envs.webshop import WebShop
from envs.webshop.expert import play
from evals.core.parts import Parts
from graph.build import build_graph
from graph.config import load_config
from nodes.models.embedders import MiniLM
from nodes.resources import Resources
from nodes.update_state.learned import Gru
from stores.runs import with_errors
from stores.traces import Event


def step_parts(data: str, seed: int = 0, goals: int = 10) -> Parts:
    """Return a part for each context, for its cold parts, and for the bare loop.

    Cold: no text of the page was embedded before (embeddings are computed, not looked up); warm: all
    were. ``processor`` is what a step costs in processor time, which a busy machine does not stretch.
    The expert's moves are followed, so every context sees the same pages.
    """
    kinds = ("full", "retrieve", "compress")
    parts: Parts = {kind: partial(_warm, kind, data, seed, goals) for kind in kinds}
    return {**parts, "cold": partial(_cold, goals), "bare loop": _bare_loop}


def beside_bare_loop(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return ``rows`` with how many times the bare loop's step each takes."""
    base = rows[-1].get("step_ms", float("nan"))
    return [{**row, "times_bare_loop": row.get("step_ms", float("nan")) / base} for row in rows]


def _warm(kind: str, data: str, seed: int, goals: int) -> list[dict[str, Any]]:
    overrides = [f"context.kind={kind}", "context.budget=300", f"env.data={data}"]
    graph = build_graph(load_config("webshop", overrides), checkpointer=False)
    agent = graph.agent.bound()  # type: ignore[attr-defined]
    agent.resources.embedder.embed(["warm up the model"])
    agent.context(agent.observe({"task": {"goal": 0}}, {}))  # loads what the builder needs
    times: dict[str, list[float]] = {}
    for goal in range(goals):
        for _ in walk(agent, goal, seed):  # so that texts are in the cache
            pass
        for taken in walk(agent, goal, seed):
            for name, milliseconds in taken.items():
                times.setdefault(name, []).append(milliseconds)
    return [{"agent": f"{kind}, warm", "n": len(times["step_ms"]), **with_errors(times)}]


def walk(agent: Any, goal: int, seed: int) -> Iterator[dict[str, float]]:
    """Follow the expert through ``goal``; yield the milliseconds of each step's parts."""
    moves = [event.text for event in play(agent.world, goal, seed).events if event.kind == "ACT"]
    state: Any = dict(agent.observe({"task": {"goal": goal}}, {}))
    for step, move in enumerate(moves):
        before, busy = time.perf_counter(), time.process_time()
        state |= agent.observe({**state, "task": None}, {})
        seen = time.perf_counter()
        state |= agent.update_state(state)
        updated = time.perf_counter()
        state |= agent.build_context(state)
        built = time.perf_counter()
        yield {
            "update_ms": 1000 * (updated - seen), "build_ms": 1000 * (built - updated),
            "step_ms": 1000 * (built - before),
            "processor_ms": 1000 * (time.process_time() - busy),
        }  # fmt: skip
        session, _ = agent.world.step(state["session"], move)
        state |= {"session": dict(session), "action": move, "steps": step + 1}


def _cold(goals: int) -> list[dict[str, Any]]:
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
    row = with_errors({"step_ms": values})
    return [{"agent": "update per event, cold", "n": len(values), **row}]


def _bare_loop(steps: int = 200) -> list[dict[str, Any]]:
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
    row = with_errors({"step_ms": values})
    return [{"agent": "bare LangGraph loop", "n": len(values), **row}]
