"""A bank's vectors in Chroma, for banks that outgrow memory-mapped files."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stores.bank.bank import Bank, Vector
from stores.errors import UserError


class ChromaIndex:
    """A persistent collection under the bank's ``index/chroma``, brought up to date when opened."""

    def __init__(self, bank: Bank, key: str, generation: str) -> None:
        import chromadb
        from chromadb.config import Settings

        folder: Path = bank.folder / "index" / "chroma"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            client = chromadb.PersistentClient(
                str(folder), settings=Settings(anonymized_telemetry=False)
            )
            name = f"{key}-{generation}"
            for old in client.list_collections():
                if old.name != name and old.name.startswith(f"{key}-"):
                    client.delete_collection(old.name)
            self._collection: Any = client.get_or_create_collection(
                name, metadata={"hnsw:space": "cosine"}, embedding_function=None
            )
            most = client.get_max_batch_size()
            self.last = self._fill(bank, key, min(most, 4096))
        except (OSError, ValueError, chromadb.errors.ChromaError) as error:
            raise UserError(
                f"cannot keep the index of '{bank.folder}' in Chroma ({error}): remove '{folder}'"
            ) from None

    def search(self, vector: Vector, k: int) -> tuple[NDArray[np.int64], Vector]:
        """Return (row numbers, cosines) of the ``k`` nearest vectors."""
        size = self._collection.count()
        if not size:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        found = self._collection.query(
            query_embeddings=[vector.tolist()], n_results=min(k, size), include=["distances"]
        )
        numbers = [int(id_.partition("/")[0]) for id_ in found["ids"][0]]
        scores = 1.0 - np.asarray(found["distances"][0], dtype=np.float32)
        return np.asarray(numbers, dtype=np.int64), scores

    def _fill(self, bank: Bank, key: str, most: int) -> int:
        """Add what the collection lacks (ids are ``row/copy``, so a killed fill loses nothing)."""
        last = int((self._collection.metadata or {}).get("last", 0))
        for numbers, rows in bank.vectors(key, last):
            copies: dict[int, int] = {}
            ids = []
            for n in numbers.tolist():
                copies[n] = copies.get(n, -1) + 1
                ids.append(f"{n}/{copies[n]}")
            for start in range(0, len(ids), most):
                part = slice(start, start + most)
                self._collection.upsert(ids=ids[part], embeddings=rows[part].tolist())
            last = max(last, int(numbers[-1]))
        kept = {k: v for k, v in (self._collection.metadata or {}).items() if k != "hnsw:space"}
        self._collection.modify(metadata={**kept, "last": last})
        return last
