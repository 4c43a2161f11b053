"""Vectors in Chroma: a folder by default, a Chroma server by URL.

A collection's name holds its embedder's: the cosine of two models' vectors means nothing.
"""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from stategate.stores.errors import UserError, user_error_context, warn_once
from stategate.stores.home import cache, home
from stategate.stores.http import is_web
from stategate.stores.sql import damage_of

Vector = NDArray[np.float32]
_BLOCK = 2000  # rows a request; Chroma allows some 5000


class Vectors:
    """One collection: unit vectors by id."""

    def __init__(self, where: str | Path, name: str) -> None:
        """Open or make collection ``name`` in the folder or at the URL ``where``.

        A damaged folder is replaced by an empty one if Stategate made it. Raises ``UserError`` for a
        damaged folder of the user's, which may hold more than vectors, and without a server.
        """
        try:
            self._collection = _collection(str(where), name)
        except UserError:
            if not _is_managed(str(where)) or not damage_of(Path(where) / "chroma.sqlite3"):
                raise
            warn_once(f"the vectors in '{where}' were damaged: they are made anew")
            shutil.rmtree(where)
            _forget_clients()
            self._collection = _collection(str(where), name)

    def ids(self) -> set[str]:
        """Return the ids of all rows."""
        return set(self._collection.get(include=[])["ids"])

    def put(self, ids: Sequence[str], vectors: Vector) -> None:
        """Add or replace rows, 2,000 at most; ``vectors`` has shape (len(ids), dimension)."""
        rows = np.asarray(vectors, dtype=np.float32)
        self._collection.upsert(ids=list(ids), embeddings=rows)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are ignored."""
        for start in range(0, len(ids), _BLOCK):
            self._collection.delete(ids=list(ids[start : start + _BLOCK]))

    def search(self, vector: Vector, k: int) -> list[tuple[str, float]]:
        """Return up to ``k`` (id, cosine), best first."""
        if k <= 0:
            return []
        answer = self._collection.query(
            query_embeddings=[np.asarray(vector, dtype=np.float32)],
            n_results=k,
            include=["distances"],
        )
        distances = (answer["distances"] or [[]])[0]
        return [(id_, 1 - float(d)) for id_, d in zip(answer["ids"][0], distances, strict=True)]


def _is_managed(where: str) -> bool:
    """Say whether ``where`` is a folder that Stategate made: under its home or cache."""
    folder = Path(where).absolute()
    return not is_web(where) and any(map(folder.is_relative_to, (home(), cache())))


def _collection(where: str, name: str) -> Any:
    client = _client(where)
    with _errors(where):
        return client.get_or_create_collection(
            name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )


def _forget_clients() -> None:
    """Drop cached clients, so that a folder is opened again: chromadb caches failed ones too."""
    from chromadb.api.shared_system_client import SharedSystemClient

    _client.cache_clear()
    SharedSystemClient.clear_system_cache()


@lru_cache(maxsize=8)
def _client(where: str) -> Any:
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    with _errors(where):
        if not is_web(where):
            Path(where).mkdir(parents=True, exist_ok=True)
            return chromadb.PersistentClient(where, settings=settings)
        parts = urlsplit(where)
        is_secure = parts.scheme == "https"
        return chromadb.HttpClient(
            parts.hostname or "localhost",
            parts.port or (443 if is_secure else 8000),
            ssl=is_secure,
            settings=settings,
        )


def _errors(where: str) -> AbstractContextManager[None]:
    fix = "start it with `chroma run`" if is_web(where) else "name another folder"
    # chromadb raises many kinds, also plain ValueError.
    return user_error_context(f"cannot use the vector store at '{where}'", fix, Exception)
