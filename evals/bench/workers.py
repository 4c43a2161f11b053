"""What sharing an evaluation among workers gains, and what it costs: serial beside shared, in one run.

``episodes_per_second`` is by the clock, from the first worker's start to the last row; ``ready`` is the
seconds until a crew has played its first episode (models and catalogues are loaded in each worker).
``overhead_ms`` is what one job costs beside its own work: the round trip of a job that does nothing.
"""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from stategate.evals.core.task import Parts, spread
from stategate.evals.worlds.live import run_live
from stategate.stores.workers import Crew, work


def worker_parts(config: str, goals: int, workers: int) -> Parts:
    """Return the parts: one process, a crew, and jobs that do nothing."""
    return {
        "1 process": partial(_played, config, goals, None),
        f"{workers} workers": partial(_played, config, goals, Crew(workers)),
        "empty jobs": partial(_empty, workers),
    }


def _played(config: str, goals: int, crew: Crew | None) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="stategate-") as folder:
        out = str(Path(folder) / "run")
        agents = {"full": ["context.kind=full"]}
        settings = ["actor.kind=rule", "updater.kind=none", "memory=[short_term]"]
        started = time.perf_counter()
        spread(partial(run_live, config, agents, range(goals), out, settings), crew)
        seconds = time.perf_counter() - started
    name = "1 process" if crew is None else f"{crew.workers} workers"
    return [
        {
            "agent": name,
            "n": goals,
            "seconds": round(seconds, 3),
            "episodes_per_second": round(goals / seconds, 3),
            "load": round(os.getloadavg()[0], 1),
        }
    ]


def _idle(serve: Callable[[Callable[[Any], Any]], None]) -> None:
    serve(lambda job: job)


def _empty(workers: int, jobs: int = 2000) -> list[dict[str, Any]]:
    began = time.perf_counter()
    first = 0.0
    for done, _ in enumerate(work(_idle, range(jobs), Crew(workers)), 1):
        if done == 1:
            first = time.perf_counter()
    last = time.perf_counter()
    return [
        {
            "agent": "empty jobs",
            "n": jobs,
            "ready": round(first - began, 3),
            "overhead_ms": round(1000 * (last - first) / (jobs - 1), 4),
            "load": round(os.getloadavg()[0], 1),
        }
    ]
