"""The two kinds of banks: of states (one row a past decision) and of traces (one row an episode).

A row of states has the state that a decision was taken in, its worth, and advice; it is found by the
text of the state.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from stategate.stores.bank.bank import Bank, Row, Vector
from stategate.stores.bank.nearest import Searcher


@dataclass(frozen=True)
class Hit:
    """A row that was found, and its score: the cosine with the query."""

    row: Row
    score: float


class StateBank:
    """A bank of states (see ``stores.bank.bank`` for the file and what is refused).

    ``embedder`` names what makes the vectors; None reads a bank without checking (to show or prune
    it).
    """

    def __init__(
        self, place: str | Path, embedder: str | None = None, create: bool = False
    ) -> None:
        self.bank = Bank(place, "state", {"text": embedder}, create)
        self._searcher = Searcher(self.bank, "text")

    def search(self, query: Vector, k: int, hidden: Collection[int] = ()) -> list[Hit]:
        """Return the ``k`` states nearest to ``query``, best first, without the rows ``hidden``."""
        scored = self._searcher.search(query, k, hidden)
        rows = {row.n: row for row in self.bank.rows([n for n, _ in scored])}
        return [Hit(rows[n], score) for n, score in scored if n in rows]

    def refresh(self) -> None:
        """Make the search files now rather than at the first search."""
        self._searcher.refresh()


class TraceBank:
    """A bank of whole episodes (see ``stores.bank.bank`` for the file and what is refused)."""

    def __init__(
        self, place: str | Path, embedder: str | None = None, create: bool = False
    ) -> None:
        self.bank = Bank(place, "trace", {"text": embedder}, create)
        self._searcher = Searcher(self.bank, "text")

    def search(self, queries: Vector, k: int) -> list[Hit]:
        """Return ``k`` episodes, best first, no two of one task: each by its best cosine.

        ``queries`` has one row a wording, shape ``(m, dimension)``.
        """
        best: dict[int, float] = {}
        for query in queries:
            for n, score in self._searcher.search(query, 4 * k):
                best[n] = max(score, best.get(n, -1.0))
        order = sorted(best, key=lambda n: (-best[n], n))
        rows = {row.n: row for row in self.bank.rows(order)}
        hits: dict[str, Hit] = {}
        for n in order:
            if n in rows:
                hits.setdefault(rows[n].task, Hit(rows[n], best[n]))
        return list(hits.values())[:k]

    def refresh(self) -> None:
        """Make the search files now rather than at the first search."""
        self._searcher.refresh()
