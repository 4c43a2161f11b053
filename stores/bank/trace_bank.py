"""The trace bank: one row a past episode, found by its question and by rewordings of it."""

from collections.abc import Collection
from pathlib import Path

from stategate.stores.bank.bank import Bank, Vector
from stategate.stores.bank.served import searcher_of
from stategate.stores.bank.state_bank import Hit

KIND = "trace"


class TraceBank:
    """A bank of whole episodes (see ``stores.bank.bank`` for the file and what is refused).

    ``vectors`` is the URL of a Chroma server to search on.
    """

    def __init__(
        self,
        place: str | Path,
        embedder: str | None = None,
        create: bool = False,
        vectors: str | None = None,
    ) -> None:
        self.bank = Bank(place, KIND, {"text": embedder}, create)
        self._searcher = searcher_of(self.bank, "text", vectors)

    def search(self, queries: Vector, k: int, without: Collection[str] = ()) -> list[Hit]:
        """Return ``k`` episodes, best first, no two of one task: each by its best cosine.

        ``queries`` has one row a wording, shape ``(m, dimension)``.
        """
        left_out = self.bank.numbers_of(list(without)) if without else set()
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
