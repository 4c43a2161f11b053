"""The two kinds of banks, of states (one row a past decision) and of traces (one row an episode).

A row of states has the state that a decision was taken in, its worth, and advice; it is found by the
text of the state. Search is exact: every vector of the bank is kept in memory and compared.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stategate.stores.bank.bank import Bank, Row, Vector, row_table
from stategate.stores.errors import UserError

_NOTHING: tuple[Vector, NDArray[np.int64]] = np.zeros((0, 0), np.float32), np.zeros(0, np.int64)


class Searcher:
    """Search of a bank that may grow meanwhile."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._version = self._generation = ""
        #: Every vector, the number of its row (ascending), and each row with its first vector.
        self._vectors, self._numbers = _NOTHING
        self._rows, self._starts = np.unique(self._numbers, return_index=True)

    def search(
        self, vector: Vector, k: int, without: Collection[int] = ()
    ) -> list[tuple[int, float]]:
        """Return the ``k`` nearest rows as (number, cosine), best first, each by its best vector.

        ``without`` are rows that must not come back. Raises ``UserError`` for a vector of another
        dimension.
        """
        self.refresh()
        length = float(np.linalg.norm(vector))
        if k <= 0 or length == 0 or not len(self._rows):
            return []
        if len(vector) != self._vectors.shape[1]:
            raise UserError(
                f"the bank '{self._bank.path}' does not hold vectors of size {len(vector)} "
                f"(size {self._vectors.shape[1]}): use the embedder it was built with"
            )
        cosines = self._vectors @ np.asarray(vector / length, dtype=np.float32)
        best = np.maximum.reduceat(cosines, self._starts)
        allowed = np.flatnonzero(~np.isin(self._rows, list(without)))
        order = allowed[np.argsort(-best[allowed], kind="stable")[:k]]
        return [(int(self._rows[i]), float(best[i])) for i in order]

    def refresh(self) -> None:
        """Take in what was added to the bank since the last search; all of it where rows went."""
        version, generation = self._bank.meta("version"), self._bank.meta("generation")
        if version == self._version:
            return
        is_grown = generation == self._generation and len(self._numbers) > 0
        parts = [(self._vectors, self._numbers)] if is_grown else []
        last = int(self._numbers[-1]) if is_grown else 0
        parts += [(vectors, numbers) for numbers, vectors in self._bank.vectors(last)]
        vectors, numbers = zip(*(parts or [_NOTHING]), strict=True)
        self._vectors, self._numbers = np.concatenate(vectors), np.concatenate(numbers)
        self._rows, self._starts = np.unique(self._numbers, return_index=True)
        self._version, self._generation = version, generation


@dataclass(frozen=True)
class Hit:
    """A row that was found, and its score: the cosine with the query."""

    row: Row
    score: float


class _Searched:
    """A bank of one kind and its search.

    ``embedder`` names what makes the vectors; None reads a bank without checking (to show or prune
    it).
    """

    kind: str

    def __init__(
        self, place: str | Path, embedder: str | None = None, create: bool = False
    ) -> None:
        self.bank = Bank(place, self.kind, embedder, create)
        self._searcher = Searcher(self.bank)

    def _hits(self, scores: Mapping[int, float]) -> list[Hit]:
        """Return the rows with these numbers, best first, those that are gone left out."""
        rows = self.bank.rows(row_table.c.n.in_(list(scores)))
        return sorted((Hit(row, scores[row.n]) for row in rows), key=lambda hit: -hit.score)


class StateBank(_Searched):
    """A bank of states (see ``stores.bank.bank`` for the file and what is refused)."""

    kind = "state"

    def search(self, query: Vector, k: int, hidden: Collection[int] = ()) -> list[Hit]:
        """Return the ``k`` states nearest to ``query``, best first, without the rows ``hidden``."""
        return self._hits(dict(self._searcher.search(query, k, hidden)))


class TraceBank(_Searched):
    """A bank of whole episodes (see ``stores.bank.bank`` for the file and what is refused)."""

    kind = "trace"

    def search(self, queries: Vector, k: int) -> list[Hit]:
        """Return ``k`` episodes, best first, no two of one task: each by its best cosine.

        ``queries`` has one row a wording, shape ``(m, dimension)``.
        """
        best: dict[int, float] = {}
        for query in queries:
            for n, score in self._searcher.search(query, 4 * k):
                best[n] = max(score, best.get(n, -1.0))
        hits: dict[str, Hit] = {}
        for hit in self._hits(best):
            hits.setdefault(hit.row.task, hit)
        return list(hits.values())[:k]
