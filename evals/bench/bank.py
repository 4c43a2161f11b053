"""How fast a state bank answers, by size: search alone, and the whole step with its one embedding.

Larger banks are made of the given bank's own vectors, each copy moved a little at random (the cosine
with its original is about 0.9), because states are not spread like noise. ``recall_at_10`` is the
share of the true ten nearest that is found. Queries are vectors of the bank moved in the same way.
``cpu_ms`` is processor time, which other programs on the machine do not lengthen; ``search_ms`` is by
the clock; ``wide`` is a search of 480, which ``gate=alike`` with ``top_k=60`` makes.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stategate.evals.core.task import Parts
from stategate.stores.bank.bank import Bank, Entry, Row, Vector
from stategate.stores.bank.nearest import Searcher
from stategate.stores.bank.state_bank import StateBank
from stategate.stores.errors import UserError

NUDGE = 0.5  # length of the random part: cosine 1 / sqrt(1 + 0.25), about 0.9
_QUERIES = 300
_BLOCK = 5000
_WIDE = 480
_STATE = "Question: " + "a state's text is about so long " * 18


def bank_parts(bank: StateBank, sizes: Sequence[int], resources: Any, seed: int = 0) -> Parts:
    """Return a part a size, and one for the embedding that every search begins with."""
    blocks = [rows.copy() for _, rows in bank.bank.vectors("text")]
    if not blocks:
        raise UserError("the bank is empty: build one first")
    seeds = np.concatenate(blocks)
    texts = [str(row.data["state"]) for row in bank.bank.rows()[:110]]
    parts: Parts = {f"{size} states": partial(_of_size, seeds, size, seed) for size in sizes}
    return {**parts, "embedding": partial(_embedding, resources, texts)}


def _of_size(seeds: Vector, size: int, seed: int) -> list[dict[str, Any]]:
    """Fill a bank of ``size`` states, and search ten and many in it."""
    with tempfile.TemporaryDirectory(prefix="stategate-", ignore_cleanup_errors=True) as folder:
        store = Bank(Path(folder) / "bank", "state", {"text": "bench"}, create=True)
        started = time.perf_counter()
        data = {"experience": "x" * 80, "state": _STATE}
        for block, vectors in enumerate(_moved(seeds, size, np.random.default_rng(seed))):
            store.add(
                Entry(Row(f"{_BLOCK * block + i}", "t", 5.0, data), {"text": vector})
                for i, vector in enumerate(vectors)
            )
        filled = time.perf_counter() - started
        searcher = Searcher(store, "text")
        started = time.perf_counter()
        searcher.refresh()
        indexed = time.perf_counter() - started
        queries = next(_moved(seeds, _QUERIES, np.random.default_rng(seed + 1)))

        def search(k: int, query: Vector) -> set[int]:
            return {row.n for row in store.rows([n for n, _ in searcher.search(query, k)])}

        _timed(partial(search, 10), queries[:20])  # warm
        wide, _ = _timed(partial(search, _WIDE), queries[:100])
        narrow, found = _timed(partial(search, 10), queries)
        row = {
            "states": size,
            **{f"search_{name}": value for name, value in narrow.items()},
            **{f"wide_{name}": value for name, value in wide.items()},
            "queries": len(found),
            "recall_at_10": _recall(store, queries[:100], found[:100]),
            "fill_s": filled,
            "index_s": indexed,
        }
        store.close()
        used = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
        return [{**row, "megabytes": used / 1e6}]


def _timed(call: Callable[[Any], Any], given: Iterable[Any]) -> tuple[dict[str, float], list[Any]]:
    """Return p50 and p95 of the milliseconds of ``call`` by clock and processor, and its answers."""
    took, worked, answers = [], [], []
    for one in given:
        started, cpu = time.perf_counter(), time.process_time()
        answers.append(call(one))
        took.append(1000 * (time.perf_counter() - started))
        worked.append(1000 * (time.process_time() - cpu))
    return {
        f"{name}_p{share}": float(np.percentile(values, share))
        for name, values in (("ms", took), ("cpu_ms", worked))
        for share in (50, 95)
    }, answers


def _recall(store: Bank, queries: Vector, found: Sequence[set[int]]) -> float:
    """Return the share of the true ten nearest (every vector compared) among ``found``."""
    import faiss

    exact = faiss.IndexIDMap(faiss.IndexFlatIP(queries.shape[1]))
    for numbers, rows in store.vectors("text"):
        exact.add_with_ids(np.ascontiguousarray(rows), numbers)
    _, nearest = exact.search(queries, 10)
    return float(
        np.mean([len({*ten} & f) / len(ten) for ten, f in zip(nearest, found, strict=True)])
    )


def _moved(seeds: Vector, size: int, rng: np.random.Generator) -> Iterator[Vector]:
    for start in range(0, size, _BLOCK):
        count = min(_BLOCK, size - start)
        rows = seeds[rng.integers(0, len(seeds), count)]
        noise = rng.normal(size=rows.shape).astype(np.float32)
        noise *= NUDGE / np.linalg.norm(noise, axis=1, keepdims=True)
        moved = rows + noise
        yield moved / np.linalg.norm(moved, axis=1, keepdims=True)


def _embedding(resources: Any, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Embed texts that are new, one by one; the first ten warm the model up."""
    fresh = [f"{time.time_ns()} {text} {i}" for i, text in enumerate(texts)]
    _timed(lambda text: resources.embedder.embed([text]), fresh[:10])
    took, _ = _timed(lambda text: resources.embedder.embed([text]), fresh[10:])
    row = {f"embedding_{name}": took[name] for name in ("ms_p50", "ms_p95")}
    return [{"states": 1, **row, "queries": len(fresh) - 10}]
