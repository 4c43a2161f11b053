"""Speed of the stores by size: searching a state bank, and writing to and recalling from memory.

Larger banks are made of the given bank's own vectors, each copy moved a little at random (the cosine
with its original is about 0.9), because states are not spread like noise. ``cpu_ms`` is processor
time, which other programs on the machine do not lengthen.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stategate.evals.core.task import Parts, Row
from stategate.evals.settings import BenchBank, BenchMemory
from stategate.graph.config import load_config
from stategate.nodes.resources import Resources
from stategate.stores.bank.bank import Bank, Entry, Vector
from stategate.stores.bank.bank import Row as BankRow
from stategate.stores.bank.nearest import Searcher
from stategate.stores.bank.search import StateBank
from stategate.stores.errors import UserError
from stategate.stores.loopback import from_environment
from stategate.stores.runs import parse_numbers

_NUDGE = 0.5  # length of the random part: cosine 1 / sqrt(1 + 0.25), about 0.9
_QUERIES, _WIDE = 300, 480  # ``gate=alike`` with ``top_k=60`` searches 480
_BLOCK = 5000
_STATE = "Question: " + "a state's text is about so long " * 18
_DIMENSION, _CONVERSATIONS = 384, 60


def timed(call: Callable[[Any], Any], given: Iterable[Any]) -> tuple[dict[str, float], list[Any]]:
    """Return p50 and p95 of the milliseconds of ``call`` by clock and processor, and its answers."""
    clock, processor, answers = [], [], []
    for one in given:
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
    """Return a part a size, and one for the embedding that every search begins with."""
    config = load_config(settings.config, settings.overrides)
    bank, sizes = StateBank(settings.bank), parse_numbers(settings.sizes, "sizes")
    blocks = [rows.copy() for _, rows in bank.bank.vectors("text")]
    if not blocks:
        raise UserError("the bank is empty: build one first")
    seeds = np.concatenate(blocks)
    texts = [str(row.data["state"]) for row in bank.bank.rows()[:110]]
    parts = {f"{n} states": partial(_of_size, seeds, n, settings.seed) for n in sizes}
    embedding = partial(_embedding, Resources(None, config.embedder), texts)
    return {**parts, "embedding": embedding}


def _of_size(seeds: Vector, size: int, seed: int) -> list[Row]:
    """Fill a bank of ``size`` states, and search ten and many in it."""
    with tempfile.TemporaryDirectory(prefix="stategate-", ignore_cleanup_errors=True) as folder:
        store = Bank(Path(folder) / "bank", "state", {"text": "bench"}, create=True)
        data = {"experience": "x" * 80, "state": _STATE}
        for block, vectors in enumerate(_moved(seeds, size, np.random.default_rng(seed))):
            store.add(
                Entry(BankRow(f"{_BLOCK * block + i}", "t", 5.0, data), {"text": vector})
                for i, vector in enumerate(vectors)
            )
        searcher = Searcher(store, "text")
        started = time.perf_counter()
        searcher.refresh()
        indexed = time.perf_counter() - started
        queries = next(_moved(seeds, _QUERIES, np.random.default_rng(seed + 1)))

        def search(k: int, query: Vector) -> set[int]:
            return {row.n for row in store.rows([n for n, _ in searcher.search(query, k)])}

        timed(partial(search, 10), queries[:20])  # warm
        wide, _ = timed(partial(search, _WIDE), queries[:100])
        narrow, nearest = timed(partial(search, 10), queries)
        row = {
            "agent": f"{size} states",
            "states": size,
            **{f"search_{name}": value for name, value in narrow.items()},
            **{f"wide_{name}": value for name, value in wide.items()},
            "n": len(nearest),
            "recall_at_10": _recall(store, queries[:100], nearest[:100]),
            "index_s": indexed,
        }
        store.close()
        return [row]


def _recall(store: Bank, queries: Vector, found: Sequence[set[int]]) -> float:
    """Return the share of the true ten nearest (every vector compared) among ``found``."""
    import faiss

    exact = faiss.IndexIDMap(faiss.IndexFlatIP(queries.shape[1]))
    for numbers, rows in store.vectors("text"):
        exact.add_with_ids(np.ascontiguousarray(rows), numbers)
    _, nearest = exact.search(queries, 10)
    shares = [len({*ten} & own) / len(ten) for ten, own in zip(nearest, found, strict=True)]
    return float(np.mean(shares))


def _moved(seeds: Vector, size: int, rng: np.random.Generator) -> Iterator[Vector]:
    for start in range(0, size, _BLOCK):
        rows = seeds[rng.integers(0, len(seeds), min(_BLOCK, size - start))]
        noise = rng.normal(size=rows.shape).astype(np.float32)
        noise *= _NUDGE / np.linalg.norm(noise, axis=1, keepdims=True)
        moved = rows + noise
        yield moved / np.linalg.norm(moved, axis=1, keepdims=True)


def _embedding(resources: Any, texts: Sequence[str]) -> list[Row]:
    """Embed texts that are new, one by one; the first ten warm the model up."""
    fresh = [f"{time.time_ns()} {text} {i}" for i, text in enumerate(texts)]
    timed(lambda text: resources.embedder.embed([text]), fresh[:10])
    times, _ = timed(lambda text: resources.embedder.embed([text]), fresh[10:])
    return [{"agent": "embedding", "n": len(fresh) - 10, **times}]


def memory_parts(settings: BenchMemory) -> Parts:
    """Return one part: a user's memory that grows to the largest of ``sizes`` turns.

    Vectors are hashed word counts, so that the memory is timed and no model.
    """
    sizes = sorted(parse_numbers(settings.sizes))
    url = None if settings.db is None else from_environment(settings.db)
    return {"growth": partial(_grow, sizes, url, settings.seed)}


def _grow(sizes: Sequence[int], url: str | None, seed: int) -> list[Row]:
    from stategate.nodes.models.embedders import HashingEmbedder
    from stategate.nodes.retrieval.remember import Memory
    from stategate.stores.memory.recall import Limits

    turns, questions = _conversations(sizes[-1], seed)
    with tempfile.TemporaryDirectory(prefix="bench-memory-", ignore_cleanup_errors=True) as folder:
        file, user = Path(folder) / "memory.sqlite", f"bench-{time.time_ns()}"
        memory = Memory(url or str(file), embedder=HashingEmbedder(_DIMENSION), user=user)
        rows, done = [], 0
        for size in sizes:
            write, _ = timed(lambda turn: memory.remember_all([turn]), turns[done:size])
            recall, _ = timed(lambda q: memory.recall(q, limits=Limits(facts=10)), questions)
            rows.append(
                {
                    "agent": f"{'PostgreSQL' if url else 'SQLite'}, {size} turns",
                    "n": size - done,
                    **{f"write_{name}": value for name, value in write.items()},
                    **{f"recall_{name}": value for name, value in recall.items()},
                    **({} if url else {"megabytes": round(file.stat().st_size / 1e6, 2)}),
                }
            )
            done = size
        memory.forget()
        return rows


def _conversations(most: int, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return turns and a hundred questions of made-up conversations."""
    from stategate.evals.memory.generated import generate
    from stategate.evals.memory.published import read_locomo

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "conversations.json"
        file.write_text(json.dumps(generate("home", _CONVERSATIONS, seed)), encoding="utf-8")
        conversations = read_locomo(file)
    turns = [
        {"text": t.text, "speaker": t.speaker, "at": s.at}
        | {"thread": f"{c.id}/{s.id}", "id": f"{c.id}/{t.id}"}
        for c in conversations
        for s in c.sessions
        for t in s.turns
    ]
    if len(turns) < most:
        raise UserError(f"{len(turns)} turns are made: measure up to {len(turns)}")
    questions = [q.text for c in conversations for q in c.questions]
    return turns[:most], questions[:: max(1, len(questions) // 100)][:100]
