"""Speed of WebShop: the world itself, and a step in it without the model.

Beside a step stands a bare LangGraph loop of five empty nodes, the same supersteps that it has.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np
from tqdm import tqdm

from stategate.envs.protocols import fill, takes_text
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.expert import play
from stategate.envs.webshop.reward import nouns
from stategate.evals.core.task import Parts, Row
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from stategate.nodes.update_state.learned import Gru
from stategate.stores.runs import with_errors
from stategate.stores.traces import Event

#: What the original environment did on this class of machine, for scale (see docs/results).
ORIGINAL_STEPS_PER_SECOND = 34

#: Moves that can be repeated for ever: a search, its pages, and back.
LONG_WALK = (
    "search[red shoes]",
    "click[next >]",
    "click[next >]",
    "click[< prev]",
    "click[back to search]",
)
_GOALS = 10  # whose steps are measured


def measure_world(data: str = "sample", seed: int = 0) -> list[Row]:
    """Return one row: load, steps/s (random walks, purchases included) and search p50/p95.

    ``start_s`` is a fresh interpreter from launch to a loaded world, ``load_s`` a load in a running
    one. The nouns of titles, parsed once per machine, are made ready before the walks.
    """
    code = f"from stategate.envs.webshop import WebShop; WebShop.load({data!r})"
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code
    start, started = time.perf_counter() - started, time.perf_counter()
    shop = WebShop.load(data, observation="text")
    load, memory = time.perf_counter() - started, resident_memory() / 1e6
    for product in tqdm(shop.products.values(), "nouns"):
        nouns(product.name)
    rng = random.Random(seed)
    rates = [_walk(shop, rng, 1.0) for _ in tqdm(range(5), "random walks")]
    times = []
    for goal in rng.sample(shop.goals, min(500, len(shop.goals))):
        began = time.perf_counter()
        shop.search(goal["instruction_text"])
        times.append(1000 * (time.perf_counter() - began))
    return [
        {
            "agent": f"webshop {len(shop.products)} products",
            "n": len(rates),
            "start_s": start,
            "load_s": load,
            "resident_mb": memory,
            **with_errors({"steps_per_s": rates}),
            "times_the_original": float(np.mean(rates)) / ORIGINAL_STEPS_PER_SECOND,
            "search_n": len(times),
            "search_p50_ms": float(np.quantile(times, 0.5)),
            "search_p95_ms": float(np.quantile(times, 0.95)),
        }
    ]


def _walk(shop: WebShop, rng: random.Random, seconds: float) -> float:
    """Take random legal steps, a fresh goal after each purchase; return steps a second."""
    steps = 0
    session, seen = shop.reset(goal=rng.randrange(len(shop.goals)))
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        if seen.done:
            session, seen = shop.reset(goal=rng.randrange(len(shop.goals)))
        action = rng.choice(seen.actions)
        if takes_text(action):
            words = shop.instruction(session).split()
            action = fill(action, " ".join(rng.sample(words, min(6, len(words)))))
        session, seen = shop.step(session, action)
        steps += 1
    return steps / (time.perf_counter() - started)


def resident_memory() -> int:
    """Return this process's resident bytes (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def step_parts(data: str, seed: int = 0) -> Parts:
    """Return a part for each context, for its cold parts, and for the bare loop.

    Cold: no text of the page was embedded before (embeddings are computed, not looked up); warm: all
    were. ``processor`` is what a step costs in processor time, which a busy machine does not stretch.
    The expert's moves are followed, so every context sees the same pages.
    """
    kinds = ("full", "retrieve", "compress")
    parts: Parts = {kind: partial(_warm, kind, data, seed) for kind in kinds}
    return {**parts, "cold": _cold, "bare loop": _bare_loop}


def beside_bare_loop(rows: Sequence[Row]) -> list[Row]:
    """Return ``rows`` with how many times the bare loop's step each takes."""
    base = rows[-1].get("step_ms", float("nan"))
    return [{**row, "times_bare_loop": row.get("step_ms", float("nan")) / base} for row in rows]


def _warm(kind: str, data: str, seed: int) -> list[Row]:
    overrides = [f"context.kind={kind}", "context.budget=300", f"env.data={data}"]
    graph = build_graph(load_config("webshop", overrides), checkpointer=False)
    agent = graph.agent.bound()  # type: ignore[attr-defined]
    times: dict[str, list[float]] = {}
    for goal in range(_GOALS):
        for _ in _steps(agent, goal, seed):  # so that texts are in the cache, and models loaded
            pass
        for taken in _steps(agent, goal, seed):
            for name, milliseconds in taken.items():
                times.setdefault(name, []).append(milliseconds)
    return [{"agent": f"{kind}, warm", "n": len(times["step_ms"]), **with_errors(times)}]


def _steps(agent: Any, goal: int, seed: int) -> Iterator[dict[str, float]]:
    """Follow the expert through ``goal``; yield the milliseconds of each step's parts."""
    moves = [event.text for event in play(agent.world, goal, seed).events if event.kind == "ACT"]
    state: Any = dict(agent.observe({"task": {"goal": goal}}))
    for step, move in enumerate(moves):
        before, busy = time.perf_counter(), time.process_time()
        state |= agent.observe({**state, "task": None})
        seen = time.perf_counter()
        state |= agent.update_state(state)
        updated = time.perf_counter()
        state |= agent.build_context(state)
        built = time.perf_counter()
        yield {
            "update_ms": 1000 * (updated - seen),
            "build_ms": 1000 * (built - updated),
            "step_ms": 1000 * (built - before),
            "processor_ms": 1000 * (time.process_time() - busy),
        }
        session, _ = agent.world.step(state["session"], move)
        state |= {"session": dict(session), "action": move, "steps": step + 1}


def _cold() -> list[Row]:
    """Measure an update whose texts were never embedded: each has a word of its own."""
    updater = Gru().build(Resources(None, MiniLM(), env=WebShopEnv()))
    MiniLM().build(Resources()).embed(["warm up the model"])
    shop = WebShop.load("sample")
    values: list[float] = []
    for goal in range(_GOALS):
        state, unique = updater.initial(), time.time_ns()
        for event in (e for e in play(shop, goal, 0).events if e.kind in ("OBS", "ACT")):
            fresh = Event(event.kind, f"{event.text} {unique}", event.t)
            started = time.perf_counter()
            state = np.asarray(updater.update(state, [fresh]))
            values.append(1000 * (time.perf_counter() - started))
    row = with_errors({"step_ms": values})
    return [{"agent": "update per event, cold", "n": len(values), **row}]


class _Count(TypedDict):
    n: int


def _bare_loop() -> list[Row]:
    """Measure a loop of five nodes that do nothing, without checkpoints."""
    from langgraph.graph import START, StateGraph

    def nothing(state: _Count) -> _Count:
        return {"n": state["n"] + 1}

    names, steps = ("observe", "update_state", "build_context", "act", "write_memory"), 200
    builder: Any = StateGraph(_Count).add_sequence([(name, nothing) for name in names])
    builder.add_edge(START, names[0])
    builder.add_conditional_edges(
        names[-1], lambda state: "__end__" if state["n"] >= len(names) * steps else names[0]
    )
    graph = builder.compile()
    values = []
    for _ in range(5):
        started = time.perf_counter()
        graph.invoke({"n": 0}, {"recursion_limit": 10 * steps})
        values.append(1000 * (time.perf_counter() - started) / steps)
    row = with_errors({"step_ms": values})
    return [{"agent": "bare LangGraph loop", "n": len(values), **row}]
