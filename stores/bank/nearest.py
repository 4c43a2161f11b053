"""Nearest neighbours among a bank's vectors, from memory-mapped files.

Up to ``FLAT`` vectors every one is compared (one matrix product). Beyond that the vectors lie sorted
by cell (spherical k-means), and only the ``PROBES`` cells nearest to the query are read: how many of
the true ten that finds is measured beside the speed (``evals.bench_bank``). Files are made beside
the old ones and renamed, so readers see whole ones only; rows added since are compared from memory.
"""

import json
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stores.bank.bank import Bank, Vector
from stores.errors import UserError

FLAT = 20_000
PROBES = 32
_TAIL = 2_000  # newer rows compared from memory before the files are made anew
_SAMPLE = 40  # vectors a cell that k-means looks at
_ROUNDS = 6
_BLOCK = 16_384

Numbers = NDArray[np.int64]


class Index(Protocol):
    """Search over some of a bank's vectors."""

    last: int

    def search(self, vector: Vector, k: int) -> tuple[Numbers, Vector]:
        """Return (row numbers, cosines) of the ``k`` nearest vectors; a row may come twice."""
        ...


class MappedIndex:
    """The files of one index: ``vectors.npy`` (by cell), ``numbers.npy``, ``cells.npz``, JSON."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self.last = int(facts["last"])
        self._vectors: Any = np.load(folder / "vectors.npy", mmap_mode="r")
        self._numbers: Numbers = np.load(folder / "numbers.npy")
        self._centroids: Vector = np.load(folder / "centroids.npy")
        self._starts: Numbers = np.load(folder / "starts.npy")

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self._numbers)

    def search(self, vector: Vector, k: int, probes: int = PROBES) -> tuple[Numbers, Vector]:
        """Return (row numbers, cosines) of the ``k`` nearest vectors found."""
        if not len(self):
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        if len(self._centroids) == 0:
            return _top(self._numbers, np.asarray(self._vectors) @ vector, k)
        near = np.argsort(-(self._centroids @ vector), kind="stable")[:probes]
        spans = [slice(self._starts[c], self._starts[c + 1]) for c in near]
        numbers = np.concatenate([self._numbers[span] for span in spans])
        scores = np.concatenate([self._vectors[span] @ vector for span in spans])
        return _top(numbers, scores, k)


class Searcher:
    """Search of one key of a bank that may grow meanwhile.

    ``chroma_from`` vectors or more are searched through Chroma instead of mapped files.
    """

    def __init__(self, bank: Bank, key: str, chroma_from: int = 5_000_000) -> None:
        self._bank = bank
        self._key = key
        self._chroma_from = chroma_from
        self._seen = ""
        self._generation = ""
        self._base: Index | None = None
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
        if k <= 0 or self._base is None or length == 0:
            return []
        unit = np.asarray(vector / length, dtype=np.float32)
        wanted = k + len(without)
        try:
            while True:
                parts = [self._base.search(unit, wanted)]
                parts += [_top(n, rows @ unit, wanted) for n, rows in self._tail]
                numbers = np.concatenate([part[0] for part in parts])
                scores = np.concatenate([part[1] for part in parts])
                best: dict[int, float] = {}
                for i in np.argsort(-scores, kind="stable"):
                    best.setdefault(int(numbers[i]), float(scores[i]))
                found = [(n, score) for n, score in best.items() if n not in without][:k]
                # A row with several vectors can fill the list: look further until k rows are found.
                if len(found) == k or len(numbers) < wanted or wanted > 64 * (k + len(without)):
                    return found
                wanted *= 4
        except ValueError as error:
            raise UserError(
                f"the bank '{self._bank.folder}' does not hold '{self._key}' vectors of size "
                f"{len(vector)} ({error}): use the embedder and updater it was built with"
            ) from None

    def score(self, numbers: Collection[int], vector: Vector) -> dict[int, float]:
        """Return the best cosine of each given row that has a vector of this key."""
        unit = np.asarray(vector / (float(np.linalg.norm(vector)) or 1.0), dtype=np.float32)
        marks = ",".join("?" * len(numbers))
        query = f"select n, vector from vectors where key = ? and n in ({marks})"  # noqa: S608
        best: dict[int, float] = {}
        for row in self._bank.query(query, [self._key, *map(int, numbers)]):
            value = float(np.frombuffer(row["vector"], dtype="<f4") @ unit)
            best[row["n"]] = max(value, best.get(row["n"], -1.0))
        return best

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
        self._tail += [(n.copy(), v.copy()) for n, v in self._bank.vectors(self._key, last)]
        if sum(len(numbers) for numbers, _ in self._tail) > _TAIL:
            self._base, self._tail = self._open(generation, fresh=True), []
        self._seen = version

    def _open(self, generation: str, fresh: bool = False) -> Index:
        counted = self._bank.query("select count(*) as n from vectors where key = ?", (self._key,))
        if int(counted[0]["n"]) >= self._chroma_from:
            from stores.bank.chroma import ChromaIndex

            return ChromaIndex(self._bank, self._key, generation)
        folder = self._bank.folder / "index"
        prefix = f"{self._key}-{generation}-"
        there = sorted(
            folder.glob(f"{prefix}*"), key=lambda path: int(path.name.removeprefix(prefix))
        )
        if there and not fresh:
            try:
                return MappedIndex(there[-1])
            except (OSError, ValueError, KeyError):  # damaged: it can be made again
                shutil.rmtree(there[-1], ignore_errors=True)
        return MappedIndex(write_index(self._bank, self._key, generation))


def write_index(bank: Bank, key: str, generation: str) -> Path:
    """Make the search files of ``key`` and return their folder; older ones are removed."""
    folder = bank.folder / "index"
    folder.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".part-", dir=folder))
    try:
        last = _write(bank, key, partial)
        target = folder / f"{key}-{generation}-{last}"
        try:
            partial.rename(target)
        except OSError:  # another process was faster: its files are as good
            if not (target / "index.json").is_file():
                raise
    except OSError as error:
        raise UserError(f"cannot write the index of '{bank.folder}' ({error})") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for old in folder.glob(f"{key}-*-*"):
        if old.name != target.name:
            shutil.rmtree(old, ignore_errors=True)  # an open map outlives its name
    return target


def _write(bank: Bank, key: str, folder: Path) -> int:
    blocks = list(_numbers_of(bank, key))
    numbers = np.concatenate(blocks) if blocks else np.zeros(0, np.int64)
    first = next(bank.vectors(key), None)
    width = first[1].shape[1] if first else 1
    size = len(numbers)
    vectors: Any = np.lib.format.open_memmap(
        folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(size, width)
    )
    centroids = np.zeros((0, width), np.float32)
    starts = np.array([0, size], np.int64)
    if size <= FLAT:
        _fill(vectors, bank, key, np.arange(size))
    else:
        centroids = _centroids(bank, key, size)
        cell = np.concatenate([_nearest(v, centroids) for _, v in bank.vectors(key)])[:size]
        order = np.argsort(cell, kind="stable")
        place = np.empty(size, np.int64)
        place[order] = np.arange(size)
        _fill(vectors, bank, key, place)
        numbers = numbers[order]
        starts = np.searchsorted(cell[order], np.arange(len(centroids) + 1))
    vectors.flush()
    for name, array in (("numbers", numbers), ("centroids", centroids), ("starts", starts)):
        np.save(folder / f"{name}.npy", array)
    last = int(numbers.max()) if size else 0
    facts = {"key": key, "last": last, "vectors": size, "cells": len(centroids)}
    (folder / "index.json").write_text(json.dumps(facts), encoding="utf-8")
    return last


def _numbers_of(bank: Bank, key: str) -> Any:
    found = bank.query("select n from vectors where key = ? order by n, place", (key,))
    yield np.array([row["n"] for row in found], dtype=np.int64)


def _fill(target: Any, bank: Bank, key: str, place: Numbers) -> None:
    """Write the vectors of ``key`` to ``target``, each at its place; later additions are left."""
    done = 0
    for _, rows in bank.vectors(key):
        rows = rows[: len(place) - done]
        target[place[done : done + len(rows)]] = rows
        done += len(rows)


def _centroids(bank: Bank, key: str, size: int) -> Vector:
    """Return unit centroids (cells, dimension) by spherical k-means on a sample; seeded."""
    cells = int(2 * np.sqrt(size))
    rng = np.random.default_rng(0)
    share = min(1.0, _SAMPLE * cells / size)
    sample = np.concatenate([rows[rng.random(len(rows)) < share] for _, rows in bank.vectors(key)])
    centroids = sample[rng.choice(len(sample), min(cells, len(sample)), replace=False)].copy()
    for _ in range(_ROUNDS):
        nearest = _nearest(sample, centroids)
        sums = np.zeros_like(centroids)
        np.add.at(sums, nearest, sample)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = np.where(lengths > 0, sums / np.maximum(lengths, 1e-12), centroids)
    return centroids.astype(np.float32)


def _nearest(rows: Vector, centroids: Vector) -> Numbers:
    found = [
        np.argmax(rows[start : start + _BLOCK] @ centroids.T, axis=1)
        for start in range(0, len(rows), _BLOCK)
    ]
    return np.concatenate(found).astype(np.int64)


def _top(numbers: Numbers, scores: Vector, k: int) -> tuple[Numbers, Vector]:
    if k < len(scores):
        best = np.argpartition(-scores, k - 1)[:k]
        numbers, scores = numbers[best], scores[best]
    order = np.lexsort((numbers, -scores))
    return numbers[order], scores[order]
