"""How fast long-term memory is and how it grows: made-up conversations written into one user's memory.

Vectors are hashed word counts (384 dimensions, as MiniLM's), so that the memory is timed and not a
model; statements and the write gate are in the time, entities (a parser's) are not. Beside the time on
the clock stands the process's own (``cpu``), which other work on the machine does not lengthen.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evals.core.task import Parts
from evals.memory.generated import generate
from evals.memory.published import read_locomo
from nodes.models.embedders import HashingEmbedder
from nodes.retrieval.remember import Memory
from stores.files import replacing
from stores.memory.recall import Limits

_DIMENSION, _CONVERSATIONS = 384, 60


def memory_parts(sizes: Sequence[int], url: str | None = None, seed: int = 0) -> Parts:
    """Return one part: a memory that grows to the largest of ``sizes`` turns, measured at each."""
    return {"growth": partial(_grow, sorted(sizes), url, seed)}


def _grow(sizes: Sequence[int], url: str | None, seed: int) -> list[dict[str, Any]]:
    import json

    with tempfile.TemporaryDirectory(prefix="bench-memory-", ignore_cleanup_errors=True) as folder:
        talks = Path(folder) / "talks.json"
        talks.write_text(json.dumps(generate("home", _CONVERSATIONS, seed)), encoding="utf-8")
        conversations = read_locomo(talks)
        turns = [
            {"text": t.text, "speaker": t.speaker, "at": s.at, "thread": f"{c.id}/{s.id}",
             "id": f"{c.id}/{t.id}"}
            for c in conversations for s in c.sessions for t in s.turns
        ]  # fmt: skip
        if len(turns) < sizes[-1]:
            raise ValueError(f"{len(turns)} turns are made: measure up to {len(turns)}")
        questions = [q.text for c in conversations for q in c.questions]
        file = Path(folder) / "memory.sqlite"
        memory = Memory(
            url or str(file), embedder=HashingEmbedder(_DIMENSION), user=f"bench-{time.time_ns()}"
        )
        rows, done = [], 0
        outcomes: Counter[str] = Counter()
        for size in sizes:
            seconds, work = [], []
            for turn in turns[done:size]:
                started, worked = time.perf_counter(), time.process_time()
                [written] = memory.remember_all([turn])
                seconds.append(time.perf_counter() - started)
                work.append(time.process_time() - worked)
                outcomes[written.outcome] += 1
            done = size
            asked, thought = [], []
            for question in questions[:: max(1, len(questions) // 100)][:100]:
                started, worked = time.perf_counter(), time.process_time()
                memory.recall(question, limits=Limits(facts=10))
                asked.append(time.perf_counter() - started)
                thought.append(time.process_time() - worked)
            rows.append({
                "what": "PostgreSQL" if url else "SQLite", "n": size, "facts": outcomes["stored"],
                "merged": outcomes["merged"], "refused": outcomes["refused"],
                "megabytes": round(file.stat().st_size / 1e6, 2) if not url else None,
                **_percentiles("write", seconds[-500:]), **_percentiles("write_cpu", work[-500:]),
                **_percentiles("recall", asked), **_percentiles("recall_cpu", thought),
            })  # fmt: skip
        memory.forget()
        return rows


def _percentiles(name: str, seconds: Sequence[float]) -> dict[str, float]:
    return {
        f"{name}_p{share}_ms": round(1000 * float(np.percentile(seconds, share)), 2)
        for share in (50, 95)
    }


def plot_growth(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw facts and milliseconds by how many turns were written."""
    from evals.core.report import load_pyplot

    pyplot = load_pyplot()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6))
    sizes = [row["n"] for row in rows]
    left.plot(sizes, sizes, linestyle=":", color="0.6", label="turns written")
    left.plot(sizes, [row["facts"] for row in rows], marker="o", label="facts")
    left.set(xlabel="turns written", ylabel="facts kept")
    for name in ("write", "recall"):
        cpu = [row[f"{name}_cpu_p50_ms"] for row in rows]
        right.plot(sizes, cpu, marker="o", label=f"{name}, p50 of CPU time")
    right.axhline(30, color="0.6", linestyle="--", label="aim: 30 ms")
    right.set(xlabel="turns written", ylabel="milliseconds, without a model")
    for axis in (left, right):
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=120, bbox_inches="tight")
    pyplot.close(figure)
