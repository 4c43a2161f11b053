"""Speed of the WebShop world: steps a second, search latency, load time, and a curve to a million."""

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from envs.protocols import fill, takes_text
from envs.webshop import WebShop
from envs.webshop.catalogue import Catalogue, Product
from envs.webshop.nouns import nouns
from evals.core.parts import Parts
from stores.runs import with_errors

#: What the original environment did on this class of machine, for scale (see docs/results).
ORIGINAL_STEPS_PER_SECOND = 34


def measure_world(
    data: str = "sample", seconds: float = 5.0, seed: int = 0
) -> list[dict[str, Any]]:
    """Return one row: load, steps/s (random walks, purchases included) and search p50/p95.

    ``start_s`` is a fresh interpreter from launch to a loaded world, ``load_s`` a load in a running
    one. The nouns of titles, parsed once per machine, are made ready before the walks.
    """
    start = _start_time(data)
    started = time.perf_counter()
    shop = WebShop.load(data, observation="text")
    load, memory = time.perf_counter() - started, _memory() / 1e6
    for product in tqdm(shop.products.values(), "nouns"):
        nouns(product.name)
    rng = random.Random(seed)
    rates = [_walk(shop, rng, seconds / 5) for _ in tqdm(range(5), "random walks")]
    queries = [
        goal["instruction_text"] for goal in rng.sample(shop.goals, min(500, len(shop.goals)))
    ]
    times = _search_times(shop, queries)
    return [
        {
            "agent": f"webshop {len(shop.products)} products", "n": len(rates),
            "start_s": start, "load_s": load, "resident_mb": memory,
            **with_errors({"steps_per_s": rates}),
            "times_the_original": float(np.mean(rates)) / ORIGINAL_STEPS_PER_SECOND,
            "search_n": len(times), "search_p50_ms": float(np.quantile(times, 0.5)),
            "search_p95_ms": float(np.quantile(times, 0.95)),
        }
    ]  # fmt: skip


def _start_time(data: str) -> float:
    code = f"from envs.webshop import WebShop; WebShop.load({data!r})"
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code
    return time.perf_counter() - started


def _walk(shop: WebShop, rng: random.Random, seconds: float) -> float:
    """Take random legal steps, a fresh goal after each purchase; return steps a second."""
    steps = 0
    session, seen = shop.reset(goal=rng.randrange(len(shop.goals)))
    until = time.perf_counter() + seconds
    started = time.perf_counter()
    while time.perf_counter() < until:
        if seen.done:
            session, seen = shop.reset(goal=rng.randrange(len(shop.goals)))
        action = rng.choice(seen.actions)
        if takes_text(action):
            words = shop.instruction(session).split()
            action = fill(action, " ".join(rng.sample(words, min(6, len(words)))))
        session, seen = shop.step(session, action)
        steps += 1
    return steps / (time.perf_counter() - started)


def _search_times(shop: WebShop, queries: Sequence[str]) -> list[float]:
    times = []
    for query in queries:
        started = time.perf_counter()
        shop.search(query)
        times.append(1000 * (time.perf_counter() - started))
    return times


def curve_parts(sizes: Sequence[int], seed: int = 0) -> Parts:
    """Return a part a size over synthetic products, each measured in a process of its own."""
    return {f"{size} products": partial(_in_own_process, size, seed) for size in sizes}


def _in_own_process(size: int, seed: int) -> list[dict[str, Any]]:
    code = f"from evals.webshop.speed import one_size; one_size({size}, {seed})"
    done = subprocess.run(  # noqa: S603 - our own interpreter and code
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(done.stdout.splitlines()[-1])]


def one_size(size: int, seed: int) -> None:
    """Build and search a synthetic catalogue; prints its row as JSON (run in its own process)."""
    rng = random.Random(seed)
    words = [f"{a}{b}" for a in _SYLLABLES for b in _SYLLABLES]
    weights = [1 / (i + 1) for i in range(len(words))]
    products = {}
    for i in range(size):
        drawn = rng.choices(words, weights, k=100)
        product = Product(
            f"B{i:09d}", " ".join(drawn[:15]), "synthetic", drawn[0], "synthetic",
            " ".join(drawn[15:80]), (" ".join(drawn[80:]),), (float(i % 90 + 5),), "$1.0", {}, (),
        )  # fmt: skip
        products[product.asin] = product
    before = _memory()
    started = time.perf_counter()
    shop = WebShop(Catalogue(products))
    load = time.perf_counter() - started
    queries = [" ".join(rng.choices(words, weights, k=12)) for _ in range(100)]
    times = _search_times(shop, queries)
    row = {
        "agent": f"{size} products", "n": len(times), "index_s": load,
        "search_p50_ms": float(np.quantile(times, 0.5)),
        "search_p95_ms": float(np.quantile(times, 0.95)),
        "index_mb": (_memory() - before) / 1e6, "resident_mb": _memory() / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }  # fmt: skip
    sys.stdout.write(json.dumps(row) + "\n")


_SYLLABLES = [c + v + d for c in "bdfgklmnprst" for v in "aeiou" for d in ("n", "r")]


def _memory() -> int:
    """Return this process's resident bytes (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
