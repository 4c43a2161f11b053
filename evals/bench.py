"""Benchmarks: the shop, a step of the graph without a model, and state banks by size.

Each yields rows, one measurement after another.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
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
from stategate.stores.bank import Bank, Entry, Vector
from stategate.stores.bank import Row as BankRow
from stategate.stores.runs import parse_numbers, with_errors

_GOALS = 10
_KINDS = ("full", "retrieve", "compress")
_DIMENSION = 384  # of a state's vector, by MiniLM
_QUERIES = 300
_STATE = "Question: " + "a state's text is about so long " * 18


def bench_webshop(settings: Bench) -> Iterator[Row]:
    """Yield one row: load, steps/s (random walks, purchases included) and search p50/p95.

    The nouns of titles, parsed once per machine, are made ready before the walks.
    """
    started = time.perf_counter()
    shop = WebShop.load(data_folder(settings.data, "webshop"), observation="text")
    load = time.perf_counter() - started
    for product in shop.products.values():
        nouns(product.name)
    rng = random.Random(settings.seed)
    rates = [_walk(shop, rng, 1.0) for _ in range(5)]
    goals = rng.sample(shop.goals, min(500, len(shop.goals)))
    searched = timed(lambda goal: shop.search(goal["instruction_text"]), goals)
    row = {"agent": f"webshop {len(shop.products)} products", "n": len(rates)}
    yield {**row, "load_s": load, **with_errors({"steps_per_s": rates}), **searched}


def _walk(shop: WebShop, rng: random.Random, seconds: float) -> float:
    """Take random legal steps, a fresh goal after each purchase; return steps a second."""
    steps = 0
    session, page = shop.reset(goal=rng.randrange(len(shop.goals)))
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        if page.done:
            session, page = shop.reset(goal=rng.randrange(len(shop.goals)))
        action = rng.choice(page.actions)
        if takes_text(action):
            words = shop.instruction(session).split()
            action = fill(action, " ".join(rng.sample(words, min(6, len(words)))))
        session, page = shop.step(session, action)
        steps += 1
    return steps / (time.perf_counter() - started)


def bench_step(settings: Bench) -> Iterator[Row]:
    """Yield a row for each context kind.

    The moves of ``rule`` on whole pages are followed, so every context sees the same pages. Each goal
    is played twice and the second time is measured: texts are in the cache, models are loaded.
    """
    shop: dict[str, Any] = {"kind": "webshop", "data": settings.data}
    values: dict[str, Any] = {
        "env": shop,
        "context": "full",
        "actor": "rule",
        "memory": ["short_term"],
    }
    leader = build_graph(load_config(values), False)
    moves = []
    for goal in range(_GOALS):
        updates = leader.stream({"task": {"goal": goal}}, stream_mode="updates")
        moves.append([update["act"]["action"] for update in updates if "act" in update])
    for kind in _KINDS:
        times: list[float] = []
        for goal in range(_GOALS):
            values |= {
                "updater": "gru",
                "context": {"kind": kind, "budget": 300},
                "actor": {"kind": "scripted", "actions": moves[goal]},
            }
            graph = build_graph(load_config(values), False)
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


def timed(call: Callable[[Any], object], inputs: Iterable[Any]) -> dict[str, float]:
    """Return p50 and p95 of the milliseconds of ``call``."""
    times = []
    for argument in inputs:
        started = time.perf_counter()
        call(argument)
        times.append(1000 * (time.perf_counter() - started))
    return {f"search_ms_p{p}": round(float(np.percentile(times, p)), 3) for p in (50, 95)}


def bench_bank(settings: Bench) -> Iterator[Row]:
    """Yield a row a size.

    Vectors are random: a search compares all of a bank's, however they are spread.
    """
    for size in parse_numbers(settings.sizes, "sizes"):
        yield _of_size(size, np.random.default_rng(settings.seed))


def _of_size(size: int, rng: np.random.Generator) -> Row:
    """Fill a bank of ``size`` states, and search ten in it."""
    with tempfile.TemporaryDirectory(prefix="stategate-", ignore_cleanup_errors=True) as folder:
        store = Bank(Path(folder) / "bank", "state", "bench", create=True)
        data = {"experience": "x" * 80, "state": _STATE}
        vectors = rng.standard_normal((size, _DIMENSION), np.float32)
        store.add(Entry(BankRow(str(i), "t", 5.0, data), v) for i, v in enumerate(vectors))
        started = time.perf_counter()
        store.refresh()
        indexed = time.perf_counter() - started
        queries = rng.standard_normal((_QUERIES, _DIMENSION), np.float32)

        def search(query: Vector) -> object:
            return store.search(query, 10)

        timed(search, queries[:20])  # warm
        times = timed(search, queries)
        store.close()
        row = {"agent": f"{size} states", "states": size, "n": _QUERIES, "index_s": indexed}
        return row | times


def bench(settings: Bench) -> Iterator[Row]:
    """Yield the rows of the benchmark that the settings name."""
    return {"webshop": bench_webshop, "step": bench_step, "bank": bench_bank}[settings.what](
        settings
    )
