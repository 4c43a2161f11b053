"""A bank's rows: what one holds, and how it is written to and read from SQLite."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stores.errors import UserError

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """One piece of experience.

    ``task`` groups rows that must not advise each other in a test, ``q`` is the worth (0 to 10),
    ``data`` whatever the kind of bank keeps (plain JSON), ``uses`` how often it was given as
    advice and ``helped`` the mean reward of the episodes that it was given in.
    """

    id: str
    task: str
    q: float
    data: Mapping[str, Any]
    created: float = 0.0
    uses: int = 0
    helped: float = 0.0
    used: float | None = None
    n: int = -1


@dataclass(frozen=True)
class Entry:
    """A row to add and its vectors by key; each key may have several, shape ``(m, dimension)``."""

    row: Row
    vectors: Mapping[str, Vector] = field(default_factory=dict)


def fold(db: sqlite3.Connection, id_: str, q: float) -> int:
    """Count ``q`` into the mean worth of a row; returns 0 where the row is gone."""
    found = db.execute("select n, q, data from rows where id = ?", (id_,)).fetchone()
    if found is None:
        return 0
    data = json.loads(found["data"])
    seen = int(data.get("seen", 1))
    db.execute(
        "update rows set q = ?, data = ? where n = ?",
        ((found["q"] * seen + q) / (seen + 1), to_json({**data, "seen": seen + 1}), found["n"]),
    )
    return 1


def blobs(n: int, vectors: Mapping[str, Vector]) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield what table ``vectors`` holds of row ``n``. Raises ``UserError`` without a direction."""
    for key, rows in vectors.items():
        for place, vector in enumerate(np.atleast_2d(rows)):
            length = float(np.linalg.norm(vector))
            if not np.isfinite(length) or length == 0:
                raise UserError(f"a vector of '{key}' has no direction (zero or not finite)")
            yield n, key, place, np.asarray(vector / length, dtype="<f4").tobytes()


def to_json(data: Mapping[str, Any]) -> str:
    """Return ``data`` as the text of a row."""
    return json.dumps(dict(data))  # ASCII, so that lone surrogates of a broken model fit in


def to_row(found: sqlite3.Row) -> Row:
    """Return what a line of table ``rows`` says."""
    facts = (found["created"], found["uses"], found["helped"], found["used"], found["n"])
    return Row(found["id"], found["task"], found["q"], json.loads(found["data"]), *facts)
