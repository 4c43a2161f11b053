"""Speed of the WebShop world: steps a second, search latency, load time."""

import os
import random
import subprocess
import sys
import time
from typing import Any

import numpy as np
from tqdm import tqdm

from envs.protocols import fill, takes_text
from envs.webshop import WebShop
from envs.webshop.reward import nouns
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
    times = []
    for query in queries:
        began = time.perf_counter()
        shop.search(query)
        times.append(1000 * (time.perf_counter() - began))
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


def _memory() -> int:
    """Return this process's resident bytes (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
