"""How fast long-term memory is and how it grows: made-up conversations written into one user's memory.

Vectors are hashed word counts (384 dimensions, as MiniLM's), so that the memory is timed and not a
model; statements and the write gate are in the time, entities (a parser's) are not. Beside the time on
the clock stands the process's own (``cpu``), which other work on the machine does not lengthen.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stategate.evals.core.task import Parts
from stategate.evals.memory.generated import generate
from stategate.evals.memory.published import read_locomo
from stategate.nodes.models.embedders import HashingEmbedder, MiniLM
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.remember import Memory, asked_of
from stategate.stores.corpus.lexical import Lexical
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.recall import Limits
from stategate.stores.plots import new_plot, save_plot
from stategate.stores.sqlite import connect

_DIMENSION, _CONVERSATIONS = 384, 60


def memory_parts(
    sizes: Sequence[int], url: str | None = None, seed: int = 0, most: int | None = None
) -> Parts:
    """Return parts: a memory that grows to the largest of ``sizes`` turns, measured at each.

    With ``most`` a second one may have that many facts; ``baseline`` is what any memory spends:
    each text in a bare SQLite table, and BM25 over all of them.
    """
    grow = {"growth": partial(_grow, sorted(sizes), url, seed, None)}
    if most is not None:
        grow["bounded"] = partial(_grow, sorted(sizes), url, seed, most)
    return {**grow, "baseline": partial(_baseline, sorted(sizes), seed)}


def embedding_parts(count: int = 256, seed: int = 0) -> Parts:
    """Return one part: MiniLM over ``count`` turns one by one, and together, past the cache."""
    return {"embedding": partial(_embed, count, seed)}


def _embed(count: int, seed: int) -> list[dict[str, Any]]:
    embedder: Any = MiniLM().build(Resources())
    texts = list(dict.fromkeys(turn["text"] for turn in _material(8 * count, seed)[0]))[:count]
    embedder._compute(texts[:1])  # load the model
    rows, vectors = [], []
    for what, parts in (("one by one", [[text] for text in texts]), ("together", [texts])):
        started, worked = time.perf_counter(), time.process_time()
        vectors.append(np.concatenate([embedder._compute(part) for part in parts]))
        rows.append(
            {
                "what": what,
                "n": count,
                "seconds": round(time.perf_counter() - started, 3),
                "cpu_seconds": round(time.process_time() - worked, 3),
            }
        )
    rows[1]["furthest"] = float(np.abs(vectors[0] - vectors[1]).max())
    return rows


def _grow(
    sizes: Sequence[int], url: str | None, seed: int, most: int | None
) -> list[dict[str, Any]]:
    turns, questions = _material(sizes[-1], seed)
    with tempfile.TemporaryDirectory(prefix="bench-memory-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "memory.sqlite"
        memory = Memory(
            url or str(file),
            embedder=HashingEmbedder(_DIMENSION),
            user=f"bench-{time.time_ns()}",
            most=most,
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
                outcomes["dropped"] += len(written.dropped)
            done = size
            asked, thought = _timed(lambda q: memory.recall(q, limits=Limits(facts=10)), questions)
            rows.append(
                {
                    "what": "PostgreSQL" if url else "SQLite",
                    "n": size,
                    "facts": outcomes["stored"] - outcomes["dropped"],
                    "most": most,
                    "merged": outcomes["merged"],
                    "refused": outcomes["refused"],
                    "dropped": outcomes["dropped"],
                    "megabytes": round(file.stat().st_size / 1e6, 2) if not url else None,
                    **_percentiles("write", seconds[-500:]),
                    **_percentiles("write_cpu", work[-500:]),
                    **_percentiles("recall", asked),
                    **_percentiles("recall_cpu", thought),
                }
            )
        again = LongTerm(memory.store.url)  # as a new process reads it
        started = time.perf_counter()
        again.recall(memory.namespace, asked_of(questions[0], HashingEmbedder(_DIMENSION)))
        rows[-1]["first_recall_s"] = round(time.perf_counter() - started, 3)
        memory.forget()
        return rows


def _baseline(sizes: Sequence[int], seed: int) -> list[dict[str, Any]]:
    turns, questions = _material(sizes[-1], seed)
    rows = []
    with tempfile.TemporaryDirectory(prefix="bench-memory-", ignore_cleanup_errors=True) as folder:
        db = connect(Path(folder) / "bare.sqlite")
        db.execute("create table turns (id integer primary key, text text)")

        def write(text: str) -> None:
            with db:
                db.execute("insert into turns (text) values (?)", (text,))

        done = 0
        for size in sizes:
            texts = [turn["text"] for turn in turns[:size]]
            seconds, work = _timed(write, texts[done:])
            done = size
            index = Lexical(texts)
            asked, thought = _timed(lambda q, index=index: index.search(q, 10), questions)  # type: ignore[misc]
            rows.append(
                {
                    "what": "bare table, BM25",
                    "n": size,
                    **_percentiles("write", seconds[-500:]),
                    **_percentiles("write_cpu", work[-500:]),
                    **_percentiles("recall", asked),
                    **_percentiles("recall_cpu", thought),
                }
            )
        db.close()
    return rows


def _material(most: int, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return turns and a hundred questions of made-up conversations."""
    with tempfile.TemporaryDirectory() as folder:
        talks = Path(folder) / "talks.json"
        talks.write_text(json.dumps(generate("home", _CONVERSATIONS, seed)), encoding="utf-8")
        conversations = read_locomo(talks)
    turns = [
        {
            "text": t.text,
            "speaker": t.speaker,
            "at": s.at,
            "thread": f"{c.id}/{s.id}",
            "id": f"{c.id}/{t.id}",
        }
        for c in conversations
        for s in c.sessions
        for t in s.turns
    ]
    if len(turns) < most:
        raise ValueError(f"{len(turns)} turns are made: measure up to {len(turns)}")
    questions = [q.text for c in conversations for q in c.questions]
    return turns[:most], questions[:: max(1, len(questions) // 100)][:100]


def _timed(call: Callable[[str], Any], texts: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return the seconds of each call, on the clock and of the process's own."""
    seconds, work = [], []
    for text in texts:
        started, worked = time.perf_counter(), time.process_time()
        call(text)
        seconds.append(time.perf_counter() - started)
        work.append(time.process_time() - worked)
    return seconds, work


def _percentiles(name: str, seconds: Sequence[float]) -> dict[str, float]:
    return {
        f"{name}_p{share}_ms": round(1000 * float(np.percentile(seconds, share)), 2)
        for share in (50, 95)
    }


def plot_growth(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw facts and milliseconds by how many turns were written."""
    figure, (left, right) = new_plot(1, 2, figsize=(9, 3.6))
    grown = [row for row in rows if row.get("facts") is not None and row["most"] is None]
    bounded = [row for row in rows if row.get("most") is not None]
    sizes = [row["n"] for row in grown]
    left.plot(sizes, sizes, linestyle=":", color="0.6", label="turns written")
    left.plot(sizes, [row["facts"] for row in grown], marker="o", label="facts")
    if bounded:
        label = f"at most {bounded[0]['most']} facts"
        left.plot(sizes, [row["facts"] for row in bounded], marker="s", label=label)
    left.set(xlabel="turns written", ylabel="facts kept")
    for name in ("write", "recall"):
        for clock, what in (("", "on the clock"), ("_cpu", "of CPU time")):
            values = [row[f"{name}{clock}_p50_ms"] for row in grown]
            right.plot(sizes, values, marker="o", label=f"{name}, p50 {what}")
    right.axhline(30, color="0.6", linestyle="--", label="aim: 30 ms")
    right.set(xlabel="turns written", ylabel="milliseconds, without a model")
    for axis in (left, right):
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    save_plot(figure, path)
