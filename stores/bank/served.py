"""Nearest neighbours among a bank's vectors on a Chroma server, which several machines share.

The bank's own table stays the truth: the collection is made from it, as files of ``nearest`` are, and
brought up to date before each search by whoever searches first. Putting a vector twice changes nothing.
"""

import uuid

from stategate.stores.bank.bank import Bank, Vector
from stategate.stores.bank.nearest import Searcher
from stategate.stores.corpus.vectors import Vectors, is_server
from stategate.stores.errors import UserError
from stategate.stores.loopback import from_environment


class ServedSearcher(Searcher):
    """Search of one key of a bank, in a collection on the Chroma server ``url``."""

    def __init__(self, bank: Bank, key: str, url: str) -> None:
        super().__init__(bank, key)
        self._url = from_environment(url)
        if not is_server(self._url):
            raise UserError(f"'{self._url}' is no URL of a Chroma server: http://host:8000")
        self._collection: Vectors | None = None

    def _found(self, unit: Vector, wanted: int) -> list[tuple[int, float]]:
        if self._collection is None:
            return []
        if len(unit) != self._collection.dimension:
            raise ValueError(f"size {self._collection.dimension}")
        found = self._collection.search(unit, wanted)
        return [(int(name.partition(":")[0]), score) for name, score in found]

    def refresh(self) -> None:
        """Put what was added to the bank since the collection was last complete; take out what went."""
        version = self._bank.meta("version")
        if version == self._seen:
            return
        if self._collection is None:
            first = next(self._bank.vectors(self._key), None)
            if first is None:
                return
            name = f"bank-{_own_name(self._bank)}-{self._key}"
            make = self._bank.makes().get(self._key, "")
            self._collection = Vectors(self._url, name, make, first[1].shape[1])
        generation = self._bank.meta("generation")
        known, _, last = self._collection.mark().partition(" ")
        if known and known != generation:
            there = {row["n"] for row in self._bank.query("select n from rows")}
            ids = self._collection.ids()
            self._collection.remove([i for i in ids if int(i.partition(":")[0]) not in there])
        newest = int(last or 0)
        for numbers, rows in self._bank.vectors(self._key, newest):
            places: dict[int, int] = {}
            names = []
            for n in map(int, numbers):
                places[n] = places.get(n, -1) + 1
                names.append(f"{n}:{places[n]}")
            self._collection.put(names, rows, names, [{"n": int(n)} for n in numbers])
            newest = int(numbers[-1])
        self._collection.set_mark(f"{generation} {newest}")
        self._seen = version


def searcher_of(bank: Bank, key: str, vectors: str | None) -> Searcher:
    """Return what searches ``key``: on the Chroma server ``vectors``, or in files beside the bank."""
    return Searcher(bank, key) if vectors is None else ServedSearcher(bank, key, vectors)


def _own_name(bank: Bank) -> str:
    """Return the bank's name among all banks of a server, made once."""
    with bank.transaction() as db:
        db.execute(
            "insert into meta values ('uid', ?) on conflict do nothing", (uuid.uuid4().hex[:16],)
        )
    return bank.meta("uid")
