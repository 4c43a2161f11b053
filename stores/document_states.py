"""The index of a model's document states, kept as fp16: one SQLite file a folder.

A document's key is the SHA-256 of its text. Its arrays are written in one transaction, so a build that
was killed goes on where it stopped, and several processes may write at once.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from stategate.stores.sql import Blob, Database, Json, Schema, Text, Whole, create_tables

Arrays = Mapping[str, NDArray[Any]]
_FP16 = 65504  # the largest number of that type
_metadata = sa.MetaData()
_states = sa.Table(
    "states",
    _metadata,
    sa.Column("n", Whole, primary_key=True),
    sa.Column("key", Text, nullable=False, unique=True),
    sa.Column("parts", Json, nullable=False),
    sa.Column("arrays", Blob, nullable=False),
)
_STATES = Schema("document states", (create_tables(_states),), fix="delete the folder")


def document_key(text: str) -> str:
    """Return the key of a document: the SHA-256 of what the model reads, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class DocumentStates:
    """An index of document states. Safe for threads and processes."""

    def __init__(self, folder: str | Path) -> None:
        """Open or make the index."""
        self._db = Database(Path(folder) / "states.sqlite", _STATES)

    def add(self, key: str, arrays: Arrays) -> None:
        """Keep a document's arrays, quantised; a key that is here already is left alone."""
        row = {
            "key": key,
            "parts": {name: np.shape(array) for name, array in arrays.items()},
            "arrays": b"".join(
                np.clip(array, -_FP16, _FP16).astype("<f2").tobytes() for array in arrays.values()
            ),
        }
        with self._db.write() as db:
            db.execute(self._db.insert(_states).values(row).on_conflict_do_nothing())

    def get(self, key: str) -> dict[str, NDArray[np.float32]]:
        """Return a document's arrays as float32. Raises ``KeyError`` if it is not here."""
        query = sa.select(_states.c.parts, _states.c.arrays).where(_states.c.key == key)
        rows = self._db.rows(query)
        if not rows:
            raise KeyError(key)
        arrays = {}
        with self._db.damage():
            values = np.frombuffer(rows[0].arrays, dtype="<f2").astype(np.float32)
            for name, shape in rows[0].parts.items():
                count = math.prod(shape)
                arrays[name], values = values[:count].reshape(shape), values[count:]
            if len(values):
                raise ValueError("more bytes than the arrays have")
        return arrays

    def missing(self, keys: Sequence[str]) -> list[str]:
        """Return the keys that are not here, in order, once each."""
        query = sa.select(_states.c.key)
        return [
            key
            for key in dict.fromkeys(keys)
            if not self._db.rows(query.where(_states.c.key == key))
        ]
