"""The embedding cache: each text is embedded once, in any process and any run.

One SQLite file, one row per (embedder, SHA-256 of the text), vectors as float32 bytes and their
CRC-32: what comes out is exactly what went in, or is computed again. Vectors that were used also stay
in memory, up to a number.
"""

import hashlib
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from stategate.stores.home import cache
from stategate.stores.progress import Progress
from stategate.stores.sql import Damaged, Database, Schema, Text, create_tables

Vector = NDArray[np.float32]
Compute = Callable[[Sequence[str]], Vector]


class Embedder(Protocol):
    """A text encoder: texts to unit vectors."""

    name: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return float32 unit rows, shape ``(len(texts), dimension)``; each text is computed once."""
        ...


_embeddings = sa.Table(
    "embeddings",
    sa.MetaData(),
    sa.Column("embedder", Text, primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
_CACHE = Schema("embedding cache", (create_tables(_embeddings),), fix="delete it", is_cache=True)
#: The vector as it is kept: a damaged one is dropped, not refused.
_STORED = sa.type_coerce(_embeddings.c.vector, sa.types.NullType())
_MOST_PARAMETERS = 500  # SQLite allows 999 where it is old
_IN_MEMORY = 40_000  # vectors, then it begins anew
_BLOCK = 64  # texts computed between two writes, so that a killed run keeps nearly all it did


class EmbeddingCache:
    """Embeddings by embedder and text. Safe for threads and for processes."""

    def __init__(self, path: Path) -> None:
        """Open the file ``path``, made if missing. Raises ``UserError``."""
        self.path = path
        self._memory: dict[tuple[str, bytes], Vector] = {}
        self._lock = threading.RLock()
        self._db = Database(path, _CACHE)

    def get(self, embedder: str, texts: Sequence[str], dimension: int = 0) -> dict[str, Vector]:
        """Return the known vectors among ``texts``, by text.

        One that is damaged, or not of ``dimension`` numbers, is dropped: it is computed again.
        """
        keys = {key_of(text): text for text in texts}
        own = _embeddings.c.embedder == embedder
        with self._lock:
            known = (key for key in keys if (embedder, key) in self._memory)
            vectors = {keys[key]: self._memory[embedder, key] for key in known}
            missing = [key for key, text in keys.items() if text not in vectors]
            for start in range(0, len(missing), _MOST_PARAMETERS):
                part = missing[start : start + _MOST_PARAMETERS]
                query = sa.select(_embeddings.c.text_sha256, _STORED)
                try:
                    rows = self._db.rows(query.where(own, _embeddings.c.text_sha256.in_(part)))
                except Damaged:
                    self._db.make_anew()
                    break
                whole = {key: vector for key, blob in rows if (vector := _whole(blob, dimension))}
                for key, vector in whole.items():
                    vectors[keys[key]] = self._remember(embedder, key, vector)
                if damaged := [key for key, _ in rows if key not in whole]:
                    with self._db.write() as db:
                        gone = _embeddings.c.text_sha256.in_(damaged)
                        db.execute(_embeddings.delete().where(own, gone))
        return vectors

    def put(self, embedder: str, texts: Sequence[str], vectors: Vector) -> None:
        """Keep one row of ``vectors`` (n, dimension) per text; the first vector of a text stays."""
        kept = {
            key_of(text): np.asarray(vector, dtype="<f4").tobytes()
            for text, vector in zip(texts, vectors, strict=True)
        }
        rows: list[dict[str, Any]] = [
            {"embedder": embedder, "text_sha256": key, "vector": vector + _checksum(vector)}
            for key, vector in kept.items()
        ]
        with self._lock:
            if rows:
                try:
                    self._write(rows)
                except Damaged:
                    self._db.make_anew()
                    self._write(rows)
            for key, vector in kept.items():
                self._remember(embedder, key, vector)

    def through(
        self, embedder: str, texts: Sequence[str], dimension: int, compute: Compute
    ) -> Vector:
        """Return ``(len(texts), dimension)`` vectors, computing each text that is not known once.

        ``compute`` takes texts and returns one float32 row each; it is not called if all are known.
        """
        cached = self.get(embedder, texts, dimension)
        missing = [text for text in dict.fromkeys(texts) if text not in cached]
        with Progress(
            what="embedding", total=len(missing), unit="text", disable=not missing
        ) as bar:
            for start in range(0, len(missing), _BLOCK):
                part = missing[start : start + _BLOCK]
                vectors = np.asarray(compute(part), dtype=np.float32)
                self.put(embedder, part, vectors)
                cached.update(zip(part, vectors, strict=True))
                bar.update(len(part))
        return np.array([cached[text] for text in texts], np.float32).reshape(-1, dimension)

    def drop(self, texts: Sequence[str]) -> int:
        """Forget the vectors of ``texts`` by any embedder; returns how many there were.

        Nothing of them is left in the file; in its log not either, unless another process reads it
        (see :meth:`Database.compact`).
        """
        keys = {key_of(text) for text in texts}
        with self._lock:
            for entry in [key for key in self._memory if key[1] in keys]:
                del self._memory[entry]
            with self._db.write() as db:
                column = _embeddings.c.text_sha256
                gone = [
                    db.execute(_embeddings.delete().where(column == key)).rowcount for key in keys
                ]
            if sum(gone):
                self._db.compact()
        return sum(gone)

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        with self._db.write() as db:
            db.execute(self._db.insert(_embeddings).on_conflict_do_nothing(), rows)

    def _remember(self, embedder: str, key: bytes, blob: bytes) -> Vector:
        vector = np.frombuffer(blob, dtype="<f4")  # not to be written to
        if len(self._memory) >= _IN_MEMORY:
            self._memory.clear()
        self._memory[embedder, key] = vector
        return vector


def _checksum(vector: bytes) -> bytes:
    return zlib.crc32(vector).to_bytes(4, "little")


def _whole(blob: object, dimension: int) -> bytes:
    """Return the vector that a row keeps, nothing where it is damaged or of another length."""
    if not isinstance(blob, bytes):
        return b""
    vector, checksum = blob[:-4], blob[-4:]
    is_long = len(vector) == 4 * dimension if dimension else len(vector) % 4 == 0
    return vector if is_long and checksum == _checksum(vector) else b""


def key_of(text: str) -> bytes:
    """Return the key under which the file has a text's vectors."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


_open = lru_cache(maxsize=8)(EmbeddingCache)


def embedding_cache() -> EmbeddingCache:
    """Return this process's cache in the cache folder of the moment."""
    return _open(cache() / "embeddings.sqlite")
