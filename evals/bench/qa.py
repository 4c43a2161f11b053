"""How fast retrieval and long-term memory are, on texts made up for the purpose.

Passages are of sixty words drawn from a Zipf distribution over 20,000 words. Their vectors are hashed
word counts (384 dimensions, as MiniLM's), so that the stores are timed and not a model.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evals.core.parts import Parts
from nodes.models.embedders import HashingEmbedder
from nodes.retrieval.corpus import CorpusIndex
from stores.corpus.chunking import Chunking
from stores.corpus.corpus import Corpus
from stores.corpus.documents import Document
from stores.memory.long_term import LongTerm
from stores.memory.records import Namespace, Turn

_WORDS, _QUERIES, _DIMENSION = 60, 100, 384


def retrieval_parts(sizes: Sequence[int], seed: int = 0) -> Parts:
    """Return a part a size: ingest and query so many passages."""
    return {f"{size} passages": partial(_of_size, size, seed) for size in sizes}


def _of_size(size: int, seed: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="bench-qa-", ignore_cleanup_errors=True) as folder:
        return _in_folder(Path(folder), size, seed)


def _in_folder(folder: Path, size: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    corpus = Corpus("bench", folder / "corpus")
    embedder = HashingEmbedder(_DIMENSION)
    texts = _texts(size, rng)
    started = time.perf_counter()
    corpus.sync("made", [Document(f"d{i}", "made", f"T{i}", text) for i, text in enumerate(texts)])
    read = time.perf_counter() - started
    chunking = Chunking("fixed", 256, 50)
    index = CorpusIndex(corpus, chunking, embedder, str(folder / "chroma"))
    started = time.perf_counter()
    index.sync()
    ingest = read + time.perf_counter() - started
    again = CorpusIndex(corpus, chunking, embedder, str(folder / "chroma"))
    started = time.perf_counter()
    again.sync()
    opened = time.perf_counter() - started
    queries = [" ".join(text.split()[:8]) for text in _texts(_QUERIES, rng)]
    head = {"n": size}
    rows: list[dict[str, Any]] = [
        {"what": "ingest (store and index)", **head, "per_second": size / ingest},
        {"what": "open again", **head, "seconds": opened},
    ]
    for how in ("dense", "hybrid", "parent"):
        timed = _timed(partial(index.find, k=10, how=how), queries)
        rows.append({"what": f"query {how}", **head, **timed})
    return rows


def _timed(call: Callable[[Any], Any], queries: Iterable[Any]) -> dict[str, float]:
    """Return p50 and p95 milliseconds of ``call`` over ``queries``."""
    seconds = []
    for query in queries:
        started = time.perf_counter()
        call(query)
        seconds.append(time.perf_counter() - started)
    return {f"p{share}_ms": 1000 * float(np.percentile(seconds, share)) for share in (50, 95)}


def memory_parts(url: str | None, seed: int = 0) -> Parts:
    """Return parts: write from 16 threads at once, into one user's memory and into one each; read.

    ``url`` is a PostgreSQL database of one's own; without it a new SQLite file is used.
    """
    return {
        kind: partial(_measure_memory, url, kind, seed)
        for kind in ("one user", "a user each", "read")
    }


def _measure_memory(url: str | None, kind: str, seed: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as folder:
        place = url or f"sqlite:///{Path(folder) / 'memory.sqlite'}"
        name = "PostgreSQL" if url else "SQLite"
        mark = f"{time.time_ns()}-{kind}"
        measure = _read if kind == "read" else partial(_written, kind=kind)
        return [measure(place, name, mark, seed=seed)]


def _written(url: str, name: str, mark: str, kind: str, seed: int) -> dict[str, Any]:
    memory, sessions, writes = LongTerm(url), 16, 40
    turns = [_turns(writes, f"{mark}-{i}", seed + i) for i in range(sessions)]

    def write(i: int) -> None:
        user = mark if kind == "one user" else f"{mark}-{i}"
        for turn in turns[i]:
            memory.write(Namespace(user), turn)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(sessions)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    return {
        "what": f"{name}: write from {sessions} sessions, {kind}",
        "n": sessions * writes,
        "per_second": sessions * writes / seconds,
    }


def _read(url: str, name: str, mark: str, seed: int) -> dict[str, Any]:
    memory, user = LongTerm(url), Namespace(mark)
    for turn in _turns(1000, mark, seed):
        memory.write(user, turn)
    embedder = HashingEmbedder(_DIMENSION)
    vectors = embedder.embed(_texts(50, np.random.default_rng(seed)))

    timed = _timed(lambda vector: memory.search(user, vector, embedder.name, 5), vectors)
    return {"what": f"{name}: read the top 5 facts", "n": 1000, **timed}


def _turns(count: int, episode: str, seed: int) -> list[Turn]:
    embedder = HashingEmbedder(_DIMENSION)
    texts = _texts(2 * count, np.random.default_rng(seed))
    rows = embedder.embed(texts)
    return [
        Turn(episode, episode, i, texts[2 * i], texts[2 * i + 1], rows[2 * i], rows[2 * i + 1],
             embedder.name)
        for i in range(count)
    ]  # fmt: skip


def _texts(count: int, rng: np.random.Generator) -> list[str]:
    numbers = np.minimum(rng.zipf(1.2, (count, _WORDS)), 20_000)
    return [" ".join(f"w{number}" for number in row) + "." for row in numbers]
