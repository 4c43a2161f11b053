"""How fast retrieval and long-term memory are, on texts made up for the purpose.

Passages are of sixty words drawn from a Zipf distribution over 20,000 words. Their vectors are hashed
word counts (384 dimensions, as MiniLM's), so that the stores are timed and not a model; what MiniLM
itself takes is measured apart.
"""

import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evals.core.parts import Parts
from nodes.models.embedders import HashingEmbedder, MiniLM
from nodes.resources import Resources
from nodes.retrieval.corpus import CorpusIndex
from stores.corpus.chunking import Chunking
from stores.corpus.corpus import Corpus
from stores.corpus.documents import Document
from stores.corpus.vectors import Vectors
from stores.errors import UserError
from stores.memory.long_term import LongTerm
from stores.memory.records import Namespace, Turn

_WORDS, _QUERIES, _DIMENSION = 60, 100, 384


def retrieval_parts(sizes: Sequence[int], seed: int = 0) -> Parts:
    """Return a part a size: ingest and query so many passages, in a folder and through a server."""
    return {f"{size} passages": partial(_of_size, size, seed) for size in sizes}


def measure_embedder(seed: int = 0) -> list[dict[str, Any]]:
    """Embed texts that are in no cache."""
    texts = _texts(200, np.random.default_rng([seed, time.time_ns() % 2**32]))
    embedder = Resources(None, MiniLM()).embedder
    embedder.embed(["warm"])
    started = time.perf_counter()
    embedder.embed(texts)
    rate = len(texts) / (time.perf_counter() - started)
    return [{"what": "MiniLM embeds (new texts)", "n": len(texts), "per_second": rate}]


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
        rows.append({"what": f"query {how}, folder", **head, **_timed(index.find, queries, how)})
    with _server(folder / "chroma") as url:
        served = Vectors(url, index._vectors.name, embedder.name, _DIMENSION)
        vectors = embedder.embed(queries)
        rows.append({"what": "query dense, server", **head, **_timed(served.search, vectors, 10)})
    return rows


def _timed(call: Callable[..., Any], queries: Iterable[Any], last: Any) -> dict[str, float]:
    """Return p50 and p95 milliseconds of ``call`` over ``queries``, ten results each."""
    seconds = []
    for query in queries:
        started = time.perf_counter()
        if isinstance(last, str):
            call(query, 10, last)
        else:
            call(query, last)
        seconds.append(time.perf_counter() - started)
    return {f"p{share}_ms": 1000 * float(np.percentile(seconds, share)) for share in (50, 95)}


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """Serve a Chroma folder on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["chroma", "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    code = f"import sys; sys.argv = {words!r}; from chromadb.cli.cli import app; app()"
    server = subprocess.Popen(  # noqa: S603 - our own words
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise UserError("the Chroma server did not start: try `chroma run`")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


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

    def search(vector: Any, k: int) -> None:
        memory.search(user, vector, embedder.name, k)

    return {"what": f"{name}: read the top 5 facts", "n": 1000, **_timed(search, vectors, 5)}


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
