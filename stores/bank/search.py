"""The two kinds of banks: of states (one row a past decision) and of traces (one row an episode).

A row of states has the state that a decision was taken in, its worth, and advice. Search is by the
text of a state (key ``text``), by the recurrent state (``state``), or by the mean of both cosines
(``both``).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from stategate.stores.bank.bank import Bank, Row, Vector, row_table
from stategate.stores.bank.nearest import Searcher
from stategate.stores.errors import UserError

Key = Literal["text", "state", "both"]
_WIDER = 5  # how much further each key looks when two are combined


@dataclass(frozen=True)
class Hit:
    """A row that was found, and its score: the cosine with the query (or the mean of two)."""

    row: Row
    score: float


class StateBank:
    """A bank of states (see ``stores.bank.bank`` for the file and what is refused).

    ``embedder`` and ``updater`` name what makes the two kinds of vectors; None reads a bank without
    checking (to show or prune it).
    """

    def __init__(
        self,
        place: str | Path,
        embedder: str | None = None,
        updater: str | None = None,
        create: bool = False,
    ) -> None:
        self.bank = Bank(place, "state", {"text": embedder, "state": updater}, create)
        self._searchers = {key: Searcher(self.bank, key) for key in ("text", "state")}

    def search(
        self,
        query: Mapping[str, Vector],
        k: int,
        *,
        key: Key = "text",
        without: Collection[str] = (),
        hidden: Collection[int] = (),
    ) -> list[Hit]:
        """Return the ``k`` states nearest to ``query`` (a vector for each key), best first.

        Rows of the tasks in ``without``, and the rows ``hidden``, do not come back. Raises
        ``UserError`` where the bank or the query lacks the vectors of ``key``.
        """
        left_out = {*hidden, *(_rows_of(self.bank, without))}
        keys = ("text", "state") if key == "both" else (key,)
        for name in keys:
            if name not in query:
                raise UserError(
                    f"experience is to be found by '{key}', but there is no {name} vector: "
                    "set updater.kind to what the bank was built with, or key=text"
                )
            if name == "state" and "state" not in self.bank.makes():
                raise UserError(
                    f"the bank in '{self.bank.folder}' holds no recurrent states: build it with "
                    "--updater, or search with key=text"
                )
        if len(keys) == 1:
            scored = self._searchers[keys[0]].search(query[keys[0]], k, left_out)
        else:
            scored = self._both(query, k, left_out)
        rows = {row.n: row for row in self.bank.rows([n for n, _ in scored])}
        return [Hit(rows[n], score) for n, score in scored if n in rows]

    def refresh(self) -> None:
        """Make the search files now rather than at the first search."""
        for key, searcher in self._searchers.items():
            if key in self.bank.makes():
                searcher.refresh()

    def _both(
        self, query: Mapping[str, Vector], k: int, without: Collection[int]
    ) -> list[tuple[int, float]]:
        wide = max(k * _WIDER, 50)
        candidates: set[int] = set()
        for key, searcher in self._searchers.items():
            candidates |= {n for n, _ in searcher.search(query[key], wide, without)}
        if not candidates:
            return []
        scores = {key: s.score(candidates, query[key]) for key, s in self._searchers.items()}
        mean = {n: float(np.mean([scores[key].get(n, 0.0) for key in scores])) for n in candidates}
        return sorted(mean.items(), key=lambda item: (-item[1], item[0]))[:k]


class TraceBank:
    """A bank of whole episodes (see ``stores.bank.bank`` for the file and what is refused)."""

    def __init__(
        self, place: str | Path, embedder: str | None = None, create: bool = False
    ) -> None:
        self.bank = Bank(place, "trace", {"text": embedder}, create)
        self._searcher = Searcher(self.bank, "text")

    def search(self, queries: Vector, k: int, without: Collection[str] = ()) -> list[Hit]:
        """Return ``k`` episodes, best first, no two of one task: each by its best cosine.

        ``queries`` has one row a wording, shape ``(m, dimension)``.
        """
        left_out = _rows_of(self.bank, without)
        best: dict[int, float] = {}
        for query in queries:
            for n, score in self._searcher.search(query, 4 * k, left_out):
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


def _rows_of(bank: Bank, tasks: Collection[str]) -> set[int]:
    return set(bank.numbers(row_table.c.task.in_(list(tasks)))) if tasks else set()
