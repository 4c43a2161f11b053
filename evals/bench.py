"""Benchmarks: the shop, and a step of the graph without a model.

Each yields rows, one measurement after another.
"""

import random
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from stategate.envs.protocols import fill, takes_text
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.reward import nouns
from stategate.evals.core.task import Row
from stategate.evals.settings import Bench
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import load_config
from stategate.stores.assets.fetch import data_folder
from stategate.stores.runs import with_errors

_GOALS = 10
_KINDS = ("full", "retrieve", "compress")


def bench_webshop(settings: Bench) -> Iterator[Row]:
    """Yield one row: load, steps/s (random walks, purchases included) and search p50/p95.

    The nouns of titles, parsed once a process, are made ready before the walks.
    """
    started = time.perf_counter()
    shop = WebShop.load(data_folder(settings.data, "webshop"), observation="text")
    load = time.perf_counter() - started
    for product in shop.products.values():
        nouns(product.name)
    rng = random.Random(settings.seed)
    rates = [_walk(shop, rng, 1.0) for _ in range(5)]
    goals = rng.sample(shop.goals, min(500, len(shop.goals)))
    times = []
    for goal in goals:
        started = time.perf_counter()
        shop.search(goal["instruction_text"])
        times.append(1000 * (time.perf_counter() - started))
    searched = {f"search_ms_p{p}": round(float(np.percentile(times, p)), 3) for p in (50, 95)}
    row = {"agent": f"webshop {len(shop.products)} products", "n": len(rates)}
    yield {**row, "load_s": load, **with_errors({"steps_per_s": rates}), **searched}


def _walk(shop: WebShop, rng: random.Random, seconds: float) -> float:
    """Take random legal steps, a fresh goal after each purchase; return steps a second."""
    steps = 0
    session, page = shop.reset({"goal": rng.randrange(len(shop.goals))})
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        if page.done:
            session, page = shop.reset({"goal": rng.randrange(len(shop.goals))})
        action = rng.choice(page.actions)
        if takes_text(action):
            words = shop.instruction(session).split()
            action = fill(action, " ".join(rng.sample(words, min(6, len(words)))))
        session, page = shop.step(session, action)
        steps += 1
    return steps / (time.perf_counter() - started)


def bench_step(settings: Bench) -> Iterator[Row]:
    """Yield a row for each context kind, in which ``rule`` plays.

    Each goal is played twice and the second time is measured: texts are cached, models are loaded.
    """
    for kind in _KINDS:
        values: dict[str, Any] = {
            "env": {"kind": "webshop", "data": settings.data},
            "updater": "gru",
            "context": {"kind": kind, "budget": 300},
            "actor": "rule",
            "memory": ["short_term"],
        }
        graph = build_graph(load_config(values), False)
        times: list[float] = []
        for goal in range(_GOALS):
            _play(graph, goal)
            times += _play(graph, goal)
        yield {"agent": f"{kind}, warm", "n": len(times), **with_errors({"step_ms": times})}


def _play(graph: Graph, goal: int) -> list[float]:
    """Play one episode; return the milliseconds of each step."""
    ends = [time.perf_counter()]
    for update in graph.stream({"task": {"goal": goal}}, stream_mode="updates"):
        if "write_memory" in update:
            ends.append(time.perf_counter())
    return [1000 * (end - start) for start, end in pairwise(ends)]
