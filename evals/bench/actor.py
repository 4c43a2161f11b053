"""What a decision costs: each actor reads the same built contexts along the expert's moves.

Beside them what a cross-encoder would add: MiniLM over the wish with each of ten titles, which it has
to read anew for every wish (nothing of a pair can be cached).
"""

import time
from typing import Any

from evals.bench_walk import walk
from evals.statistics import mean, standard_error
from graph.build import build_graph
from graph.config import load_config
from nodes.models.embedders import MiniLM
from nodes.observe.webshop import chunk_page
from nodes.resources import Resources

_KINDS = ("rule", "policy")
_CONTEXTS = ("full", "compress")


def measure_actor(data: str, seed: int = 0, goals: int = 20) -> list[dict[str, Any]]:
    """Return a row an actor and context: milliseconds a decision, warm, and a whole step's.

    ``decide_ms`` is the actor alone, ``step_ms`` the observation, state, context and decision. Caches
    are warm: every page was read once before. ``processor_ms`` is the decision in processor time.
    """
    rows: list[dict[str, Any]] = []
    for context in _CONTEXTS:
        for kind in _KINDS:
            overrides = [f"env.data={data}", f"context.kind={context}", f"actor.kind={kind}"]
            graph = build_graph(load_config("webshop", overrides), checkpointer=False)
            agent = graph.agent.bound()  # type: ignore[attr-defined]
            times: dict[str, list[float]] = {"decide": [], "processor": [], "step": []}
            warming: dict[str, list[float]] = {name: [] for name in times}
            for kept in (warming, times):
                for goal in range(goals):
                    _timed(agent, goal, seed, kept)
            row: dict[str, Any] = {"agent": f"{kind} reads {context}", "n": len(times["decide"])}
            for name, values in times.items():
                row |= {f"{name}_ms": mean(values), f"{name}_ms_se": standard_error(values)}
            row["slowest_ms"] = max(times["decide"])
            rows.append(row)
    rows.append(_pairs(data, goals))
    return rows


def _pairs(data: str, goals: int) -> dict[str, Any]:
    embedder = MiniLM().build(Resources())
    embedder.embed(["warm up the model"])
    shop = load_config("webshop", [f"env.data={data}"]).env.build(Resources())
    values = []
    for goal in range(goals):
        session, page = shop.reset({"goal": goal})
        _, page = shop.step(session, "search[shirt]")
        titles = [chunk.text for chunk in chunk_page(page) if chunk.kind == "product"][:10]
        wish = f"{goal} {time.time_ns()}"  # never embedded before
        began = time.perf_counter()
        embedder.embed([f"{wish} {title}" for title in titles])
        values.append(1000 * (time.perf_counter() - began))
    return {
        "agent": "MiniLM over ten pairs of wish and title", "n": len(values),
        "decide_ms": mean(values), "decide_ms_se": standard_error(values),
        "slowest_ms": max(values),
    }  # fmt: skip


def _timed(agent: Any, goal: int, seed: int, times: dict[str, list[float]]) -> None:
    actor = agent.resources.get(agent.config.actor)
    for walked in walk(agent, goal, seed):
        before, busy = time.perf_counter(), time.process_time()
        actor(walked.state["context"], walked.step)
        after = time.perf_counter()
        times["decide"].append(1000 * (after - before))
        times["processor"].append(1000 * (time.process_time() - busy))
        times["step"].append(1000 * (after - walked.marks[0]))
