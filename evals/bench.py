"""Benchmarks: the worlds, a step of the graph without a model, and state banks by size.

``cpu`` figures are processor time, which other programs on the machine do not lengthen.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np

from stategate.envs.alfworld import AlfWorld
from stategate.envs.protocols import fill, takes_text
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.expert import play
from stategate.envs.webshop.reward import nouns
from stategate.evals.core.task import Parts, Row
from stategate.evals.settings import BenchAlfworld, BenchBank, BenchStep, BenchWebshop
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import load_config
from stategate.stores.bank.bank import Bank, Entry, Vector
from stategate.stores.bank.bank import Row as BankRow
from stategate.stores.bank.search import Searcher, StateBank
from stategate.stores.errors import UserError
from stategate.stores.home import data_folder
from stategate.stores.runs import parse_numbers, with_errors

T = TypeVar("T")
R = TypeVar("R")
#: Steps a second of the original environments on this class of machine, idle.
_ORIGINAL_WEBSHOP, _ORIGINAL_ALFWORLD = 34, 10
_GOALS, _GAMES, _STEPS = 10, 100, 50
_KINDS = ("full", "retrieve", "compress")
_NUDGE = 0.5  # length of the random part: cosine 1 / sqrt(1 + 0.25), about 0.9
_QUERIES = 300
_BLOCK = 5000
_STATE = "Question: " + "a state's text is about so long " * 18


def webshop_parts(settings: BenchWebshop) -> Parts:
    """Return the one part."""
    folder = data_folder(settings.data, "webshop")
    return [partial(measure_webshop, folder, settings.seed)]


def alfworld_parts(settings: BenchAlfworld) -> Parts:
    """Return the one part."""
    folder = data_folder(settings.data, "alfworld")
    return [partial(measure_alfworld, folder, settings.seed)]


def measure_webshop(data: str = "sample", seed: int = 0) -> list[Row]:
    """Return one row: load, steps/s (random walks, purchases included) and search p50/p95.

    The nouns of titles, parsed once per machine, are made ready before the walks.
    """
    started = time.perf_counter()
    shop = WebShop.load(data, observation="text")
    load = time.perf_counter() - started
    for product in shop.products.values():
        nouns(product.name)
    rng = random.Random(seed)
    rates = [_walk(shop, rng, 1.0) for _ in range(5)]
    goals = rng.sample(shop.goals, min(500, len(shop.goals)))
    searched, _ = timed(lambda goal: shop.search(goal["instruction_text"]), goals)
    row = {"agent": f"webshop {len(shop.products)} products", "n": len(rates)}
    row |= {"load_s": load, **with_errors({"steps_per_s": rates})}
    row["times_the_original"] = float(np.mean(rates)) / _ORIGINAL_WEBSHOP
    return [row | {f"search_{name}": value for name, value in searched.items()}]


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


def measure_alfworld(data: str = "sample", seed: int = 0) -> list[Row]:
    """Return one row: ms to load a game (to its first page), and random steps a second in each.

    Games are drawn from all splits; a random walk ends after fifty steps, or when it wins.
    """
    world = AlfWorld.load(data)
    rng = random.Random(seed)
    names = rng.sample(list(world.games), min(_GAMES, len(world.games)))
    world.reset({"game": names[0]})  # the domain, which all games share, is read once
    loads, rates = [], []
    for name in names:
        fresh = AlfWorld.load(data) if data == "sample" else world
        began = time.process_time()
        session, seen = fresh.reset({"game": name})
        loads.append(1000 * (time.process_time() - began))
        began, steps = time.process_time(), 0
        while steps < _STEPS and not seen.done:
            session, seen = fresh.step(session, rng.choice(seen.actions))
            steps += 1
        rates.append(steps / (time.process_time() - began))
    row = {"agent": f"alfworld {len(world.games)} games", "n": len(names)}
    row |= with_errors({"load_cpu_ms": loads, "steps_per_cpu_s": rates})
    return [row | {"times_the_original": float(np.mean(rates)) / _ORIGINAL_ALFWORLD}]


def step_parts(settings: BenchStep) -> Parts:
    """Return a part for each context kind, and one for a bare LangGraph loop of five empty nodes.

    The expert's moves are followed, so every context sees the same pages. Each goal is played twice
    and the second time is measured: texts are in the cache, models are loaded.
    """
    parts = [partial(_steps, kind, settings.data, settings.seed) for kind in _KINDS]
    return [*parts, _bare_loop]


def _steps(kind: str, data: str, seed: int) -> list[Row]:
    shop = WebShop.load(data)
    times: dict[str, list[float]] = {"step_ms": [], "cpu_ms": [], "build_context_ms": []}
    for goal in range(_GOALS):
        moves = [event.text for event in play(shop, goal, seed).events if event.kind == "ACT"]
        values: dict[str, Any] = {
            "env": {"kind": "webshop", "data": data},
            "updater": "gru",
            "context": {"kind": kind, "budget": 300},
            "actor": {"kind": "scripted", "actions": moves},
            "memory": ["short_term"],
        }
        graph = build_graph(load_config(values), False)
        _play(graph, goal, {name: [] for name in times})
        _play(graph, goal, times)
    return [{"agent": f"{kind}, warm", "n": len(times["step_ms"]), **with_errors(times)}]


def _play(graph: Graph, goal: int, times: dict[str, list[float]]) -> None:
    """Play one episode; add the milliseconds of each step and of its ``build_context``."""
    before, busy = time.perf_counter(), time.process_time()
    last = before
    for update in graph.stream({"task": {"goal": goal}}, stream_mode="updates"):
        now = time.perf_counter()
        if "build_context" in update:
            times["build_context_ms"].append(1000 * (now - last))
        if "write_memory" in update:
            times["step_ms"].append(1000 * (now - before))
            times["cpu_ms"].append(1000 * (time.process_time() - busy))
            before, busy = now, time.process_time()
        last = now


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
    limit = {"recursion_limit": 10 * steps}
    measured = [timed(lambda start: graph.invoke(start, limit), [{"n": 0}]) for _ in range(5)]
    values = [times["ms_p50"] / steps for times, _ in measured]
    return [{"agent": "bare LangGraph loop", "n": 5, **with_errors({"step_ms": values})}]


def timed(call: Callable[[T], R], inputs: Iterable[T]) -> tuple[dict[str, float], list[R]]:
    """Return p50 and p95 of the milliseconds of ``call`` by clock and processor, and its answers."""
    clock, processor, answers = [], [], []
    for one in inputs:
        started, cpu = time.perf_counter(), time.process_time()
        answers.append(call(one))
        clock.append(1000 * (time.perf_counter() - started))
        processor.append(1000 * (time.process_time() - cpu))
    return {
        f"{name}_p{share}": round(float(np.percentile(values, share)), 3)
        for name, values in (("ms", clock), ("cpu_ms", processor))
        for share in (50, 95)
    }, answers


def bank_parts(settings: BenchBank) -> Parts:
    """Return a part a size.

    Larger banks are made of the given bank's own vectors, each copy moved a little at random (the
    cosine with its original is about 0.9), because states are not spread like noise.
    """
    blocks = [rows.copy() for _, rows in StateBank(settings.bank).bank.vectors()]
    if not blocks:
        raise UserError("the bank is empty: build one first")
    seeds = np.concatenate(blocks)
    sizes = parse_numbers(settings.sizes, "sizes")
    return [partial(_of_size, seeds, size, settings.seed) for size in sizes]


def _of_size(seeds: Vector, size: int, seed: int) -> list[Row]:
    """Fill a bank of ``size`` states, and search ten and many in it."""
    with tempfile.TemporaryDirectory(prefix="stategate-", ignore_cleanup_errors=True) as folder:
        store = Bank(Path(folder) / "bank", "state", "bench", create=True)
        data = {"experience": "x" * 80, "state": _STATE}
        for block, vectors in enumerate(_moved(seeds, size, np.random.default_rng(seed))):
            store.add(
                Entry(BankRow(f"{_BLOCK * block + i}", "t", 5.0, data), vector)
                for i, vector in enumerate(vectors)
            )
        searcher = Searcher(store)
        started = time.perf_counter()
        searcher.refresh()
        indexed = time.perf_counter() - started
        queries = next(_moved(seeds, _QUERIES, np.random.default_rng(seed + 1)))

        def search(k: int, query: Vector) -> set[int]:
            return {row.n for row in store.rows([n for n, _ in searcher.search(query, k)])}

        timed(partial(search, 10), queries[:20])  # warm
        narrow, nearest = timed(partial(search, 10), queries)
        row = {"agent": f"{size} states", "states": size, "n": len(nearest), "index_s": indexed}
        row |= {f"search_{name}": value for name, value in narrow.items()}
        store.close()
        return [row]


def _moved(seeds: Vector, size: int, rng: np.random.Generator) -> Iterator[Vector]:
    """Yield ``size`` vectors in blocks, each near a random one of ``seeds``."""
    for start in range(0, size, _BLOCK):
        rows = seeds[rng.integers(0, len(seeds), min(_BLOCK, size - start))]
        noise = rng.normal(size=rows.shape).astype(np.float32)
        noise *= _NUDGE / np.linalg.norm(noise, axis=1, keepdims=True)
        moved = rows + noise
        yield moved / np.linalg.norm(moved, axis=1, keepdims=True)
