"""The two kinds of banks, of states (one row a past decision) and of traces (one row an episode).

A row of states has the state that a decision was taken in, its worth, and advice; it is found by the
text of the state.

Nearest neighbours are found in a faiss file beside the bank. It is memory-mapped, and newer rows are
compared from memory. Up to ``FLAT`` vectors every one is compared. Beyond that they lie sorted by cell
(k-means), and only the ``PROBES`` cells nearest to the query are read: how many of the true ten that
finds is measured beside the speed (``stategate eval bench bank``). A new file is made beside the old
one and renamed, so readers see whole ones only.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from stategate.stores.bank.bank import Bank, Row, Vector
from stategate.stores.errors import UserError, require_extra
from stategate.stores.files import atomic_path

FLAT = 20_000
PROBES = 32
_TAIL = 2_000  # newer rows compared from memory before the file is made anew
_SAMPLE = 40  # vectors a cell that k-means looks at
_ROUNDS = 6
_FILE = "text"  # how a search file is called

Numbers = NDArray[np.int64]


class MappedIndex:
    """One index file; ``last`` is the number of the newest row in it."""

    def __init__(self, path: Path, last: int) -> None:
        with require_extra("local"):
            import faiss

        self.last = last
        mapped = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        self._index: Any = faiss.extract_index_ivf(mapped)
        self._whole = mapped  # owns what the other one reads
        self._index.nprobe = PROBES
        lists: Any = self._index.invlists
        # Threads that fetch pages ahead: they make a search four times as long.
        cast("Any", faiss.downcast_InvertedLists(lists)).prefetch_nthread = 0

    def search(self, vector: Vector, k: int) -> tuple[Numbers, Vector]:
        """Return (row numbers, cosines) of the ``k`` nearest vectors found; a row may come twice."""
        if not self._index.ntotal:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        if len(vector) != self._index.d:
            raise ValueError(f"size {self._index.d}")
        scores, numbers = self._index.search(vector[None], min(k, self._index.ntotal))
        here = numbers[0] >= 0
        return numbers[0][here], scores[0][here]


class Searcher:
    """Search of a bank that may grow meanwhile."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._seen = ""
        self._generation = ""
        self._base: MappedIndex | None = None
        self._tail: list[tuple[Numbers, Vector]] = []

    def search(
        self, vector: Vector, k: int, without: Collection[int] = ()
    ) -> list[tuple[int, float]]:
        """Return the ``k`` nearest rows as (number, cosine), best first, each row once.

        ``without`` are rows that must not come back. Raises ``UserError`` for a vector of another
        dimension.
        """
        self.refresh()
        length = float(np.linalg.norm(vector))
        if k <= 0 or length == 0:
            return []
        unit = np.asarray(vector / length, dtype=np.float32)
        count = k + len(without)
        while True:
            try:
                hits = self._nearest(unit, count)
            except ValueError as error:
                raise UserError(
                    f"the bank '{self._bank.folder}' does not hold vectors of size {len(vector)} "
                    f"({error}): use the embedder it was built with"
                ) from None
            best: dict[int, float] = {}
            for n, score in hits:
                if n not in without:
                    best.setdefault(n, score)
            # A row with several vectors can fill the list: look further until k rows are found.
            if len(best) >= k or len(hits) < count or count > 64 * (k + len(without)):
                return list(best.items())[:k]
            count *= 4

    def _nearest(self, unit: Vector, count: int) -> list[tuple[int, float]]:
        """Return at least the ``count`` nearest vectors as (row number, cosine), best first."""
        parts = [] if self._base is None else [self._base.search(unit, count)]
        parts += [(n, rows @ unit) for n, rows in self._tail]
        numbers, scores = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(-scores, kind="stable")
        return [(int(numbers[i]), float(scores[i])) for i in order]

    def refresh(self) -> None:
        """Take in what was added to the bank since the last search."""
        version = self._bank.meta("version")
        if version == self._seen:
            return
        generation = self._bank.meta("generation")
        if self._base is None or generation != self._generation:
            self._base, self._tail = self._open(generation), []
            self._generation = generation
        last = max([self._base.last, *(int(numbers[-1]) for numbers, _ in self._tail)])
        self._tail += [(n.copy(), v.copy()) for n, v in self._bank.vectors(last)]
        if sum(len(numbers) for numbers, _ in self._tail) > _TAIL:
            self._base, self._tail = self._open(generation, fresh=True), []
        self._seen = version

    def _open(self, generation: str, fresh: bool = False) -> MappedIndex:
        prefix = f"{_FILE}-{generation}-"
        for _ in range(3):  # another process may replace a file before it is open here
            paths = (self._bank.folder / "index").glob(f"{prefix}*.faiss")
            lasts = {int(path.stem.removeprefix(prefix)): path for path in paths}
            if not lasts or fresh:
                path, last = write_index(self._bank, generation)
            else:
                last = max(lasts)
                path = lasts[last]
            try:
                return MappedIndex(path, last)
            except (RuntimeError, OSError):  # damaged: it can be made again
                path.unlink(missing_ok=True)
        raise UserError(f"cannot read the index in '{self._bank.folder / 'index'}': remove it")


def write_index(bank: Bank, generation: str) -> tuple[Path, int]:
    """Make a bank's search file; return it and its newest row's number. Older ones go."""
    with require_extra("local"):
        import faiss

    count = bank.count_vectors()
    first = next(bank.vectors(), None)
    width = first[1].shape[1] if first else 1
    cells = int(2 * np.sqrt(count)) if count > FLAT else 1
    center = faiss.IndexFlatIP(width)
    index = faiss.IndexIVFFlat(center, width, cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical, index.cp.niter = True, _ROUNDS
    index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, _SAMPLE
    rng = np.random.default_rng(0)
    share = min(1.0, _SAMPLE * cells / count) if count else 0.0
    sample = [rows[rng.random(len(rows)) < share] for _, rows in bank.vectors()]
    index.train(np.concatenate(sample) if sample else np.eye(1, dtype=np.float32))
    last = 0
    for numbers, rows in bank.vectors():
        index.add_with_ids(np.ascontiguousarray(rows), numbers)
        last = int(numbers[-1])
    folder = bank.folder / "index"
    target = folder / f"{_FILE}-{generation}-{last}.faiss"
    with atomic_path(target) as partial:
        faiss.write_index(index, str(partial))
    for old in folder.glob(f"{_FILE}-*-*.faiss"):
        if old != target:
            old.unlink(missing_ok=True)  # an open map outlives its name
    return target, last


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

    def refresh(self) -> None:
        """Make the search files now rather than at the first search."""
        self._searcher.refresh()


class StateBank(_Searched):
    """A bank of states (see ``stores.bank.bank`` for the file and what is refused)."""

    kind = "state"

    def search(self, query: Vector, k: int, hidden: Collection[int] = ()) -> list[Hit]:
        """Return the ``k`` states nearest to ``query``, best first, without the rows ``hidden``."""
        scored = self._searcher.search(query, k, hidden)
        rows = {row.n: row for row in self.bank.rows([n for n, _ in scored])}
        return [Hit(rows[n], score) for n, score in scored if n in rows]


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
        order = sorted(best, key=lambda n: (-best[n], n))
        rows = {row.n: row for row in self.bank.rows(order)}
        hits: dict[str, Hit] = {}
        for n in order:
            if n in rows:
                hits.setdefault(rows[n].task, Hit(rows[n], best[n]))
        return list(hits.values())[:k]
