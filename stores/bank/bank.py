"""A bank of experience: rows of advice with vectors, in one place that grows safely.

    FOLDER/bank.sqlite    rows, vectors, which sources were read; every write is one transaction
    FOLDER/index/         memory-mapped search files, made from it and safe to delete

A row and its vectors come and go together, a source is marked as read in the transaction that adds
its rows, and ids are unique: a build that was killed goes on without a double or a loss, and several
processes may write at once.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stategate.stores.errors import UserError
from stategate.stores.files import parse_json, write_lines
from stategate.stores.home import cache
from stategate.stores.sqlite import SqliteFile
from stategate.stores.tables import PostgresTables, is_database, split_place
from stategate.stores.text import without_password

Vector = NDArray[np.float32]
_SCHEMA = """
create table if not exists meta (key text primary key, value text) without rowid;
create table if not exists rows (
    n integer primary key autoincrement, id text not null unique, task text not null,
    q real not null, data text not null, created real not null,
    uses integer not null default 0, helped real not null default 0, used real
);
create index if not exists rows_of_task on rows (task);
create table if not exists vectors (
    n integer not null, key text not null, place integer not null, vector blob not null,
    primary key (n, key, place)
) without rowid;
create table if not exists sources (id text primary key) without rowid;
"""
_COLUMNS = "id, task, q, data, created, uses, helped, used"
_PATIENCE = 60.0  # seconds to wait for another writer
_BLOCK = 8192  # vectors read at once
_UNIT = 1e-6  # how near to 1 the length of a vector is that has been here
_MERGED = 500  # rows copied at once


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


class Bank:
    """A bank's rows. Raises ``UserError`` where they are damaged or of another make.

    ``place`` is a folder, or a PostgreSQL database with the bank's name behind ``#``
    (``$STATEGATE_POSTGRES#state``), where other machines may write too; search files are then in this
    machine's cache.

    ``makes`` says what the bank's vectors are made with, such as ``{"text": "minilm/384/1"}``. A
    new bank keeps it and its ``kind``, an old one must have them; what is None here is not checked.
    """

    def __init__(
        self,
        place: str | Path,
        kind: str | None,
        makes: Mapping[str, str | None],
        create: bool = False,
    ) -> None:
        self._tables: SqliteFile | PostgresTables
        if is_database(place):
            url, name = split_place(place, kind or "state")
            where = hashlib.sha256(without_password(url).encode()).hexdigest()[:12]
            self.folder = cache() / "bank_indexes" / f"{where}-{name}"
            self._tables = PostgresTables(place, "bank", (_SCHEMA,), name=name, create=create)
        else:
            self.folder = Path(place).expanduser()
            path = self.folder / "bank.sqlite"
            if not create and not path.is_file():
                raise UserError(
                    f"no bank in '{place}': make one with stategate bank build TRACES --out '{place}'"
                )
            fix = "build another folder"
            self._tables = SqliteFile(path, "bank", (_SCHEMA,), fix=fix, patience=_PATIENCE)
        self.path = self._tables.path
        self.query, self.close = self._tables.query, self._tables.close
        self.belonging = self._tables.belonging
        with self.transaction() as db:
            is_new = db.execute("select 1 from meta").fetchone() is None
            self._check(db, {"kind": kind, "format": "1"}, is_new)
            self._check(db, {f"make:{key}": make for key, make in makes.items()}, is_new)
        self.kind = self.meta("kind")

    def transaction(self) -> AbstractContextManager[Any]:
        """Return a write transaction of the bank's tables: all of it happens, or nothing."""
        return self._tables.transaction()

    def add(
        self,
        entries: Iterable[Entry],
        source: str | None = None,
        folded: Iterable[tuple[str, float]] = (),
    ) -> int:
        """Add rows whose id is new and mark ``source`` as read; returns how many were new.

        ``folded`` are (id, worth): the row's worth becomes the mean over the times it was ``seen``.
        Where the source was read already, by another process meanwhile, that was counted already.
        """
        added = 0
        with self.transaction() as db:
            if source is not None:
                marked = db.execute(
                    "insert into sources values (?) on conflict do nothing", (source,)
                )
                folded = folded if marked.rowcount else ()
            for entry in entries:
                row = entry.row
                done = db.execute(
                    f"insert into rows ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
                    " on conflict do nothing returning n",
                    (
                        row.id,
                        row.task,
                        float(row.q),
                        _to_json(row.data),
                        row.created or time.time(),
                        row.uses,
                        row.helped,
                        row.used,
                    ),
                )
                if (new := done.fetchone()) is not None:
                    added += 1
                    db.executemany(
                        "insert into vectors values (?, ?, ?, ?)",
                        _blobs(int(new[0]), entry.vectors),
                    )
            changed = sum(_fold(db, id_, q) for id_, q in folded)
            if added or changed:
                _bump(db, "version")
        return added

    def is_read(self, source: str) -> bool:
        """Say whether ``source`` was added already."""
        return bool(self.query("select 1 from sources where id = ?", (source,)))

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove rows by number; their sources stay marked, so that a build brings none back."""
        with self.transaction() as db:
            for table in ("rows", "vectors"):
                db.executemany(
                    f"delete from {table} where n = ?",  # noqa: S608 - two fixed names
                    [(int(n),) for n in numbers],
                )
            if len(numbers):
                _bump(db, "version")
                _bump(db, "generation")

    def change(self, id_: str, *, q: float | None = None, **data: Any) -> Row:
        """Change the worth or the data of one row and return it. Raises ``UserError`` if unknown."""
        with self.transaction() as db:
            known = db.execute("select * from rows where id = ?", (id_,)).fetchone()
            if known is not None:
                row = _to_row(known)
                db.execute(
                    "update rows set q = ?, data = ? where n = ?",
                    (row.q if q is None else q, _to_json({**row.data, **data}), row.n),
                )
                _bump(db, "version")
        return self.row(id_)

    def count_use(self, numbers: Sequence[int], reward: float) -> None:
        """Note that the rows were given as advice in an episode that earned ``reward``."""
        with self.transaction() as db:
            db.executemany(
                "update rows set helped = (helped * uses + ?) / (uses + 1), uses = uses + 1,"
                " used = ? where n = ?",
                [(reward, time.time(), int(n)) for n in numbers],
            )

    def row(self, id_: str) -> Row:
        """Return a row by its id. Raises ``UserError`` if there is none."""
        matches = self.query("select * from rows where id = ?", (id_,))
        if not matches:
            raise UserError(f"no row '{id_}' in '{self.folder}': see stategate bank show")
        with self.belonging():
            return _to_row(matches[0])

    def rows(self, numbers: Sequence[int] | None = None) -> list[Row]:
        """Return rows by number, in that order (those that are gone left out); all without."""
        if numbers is None:
            lines = self.query("select * from rows order by n")
            with self.belonging():
                return [_to_row(line) for line in lines]
        marks = ",".join("?" * len(numbers))
        query = f"select * from rows where n in ({marks})"  # noqa: S608 - question marks only
        lines = self.query(query, [int(n) for n in numbers])
        with self.belonging():
            by_number = {row["n"]: _to_row(row) for row in lines}
        return [by_number[n] for n in numbers if n in by_number]

    def numbers_of(self, tasks: Sequence[str]) -> set[int]:
        """Return the numbers of the rows of ``tasks``."""
        query = "select n from rows where task = ?"
        return {row["n"] for task in tasks for row in self.query(query, (task,))}

    def vectors(self, key: str, after: int = 0) -> Iterator[tuple[NDArray[np.int64], Vector]]:
        """Yield blocks of (row numbers, vectors) of ``key`` beyond row ``after``, by number."""
        last = (after, 1 << 40)
        statement = (
            "select n, place, vector from vectors where key = ? and (n, place) > (?, ?)"
            " order by n, place limit ?"
        )
        while block := self.query(statement, (key, *last, _BLOCK)):
            with self.belonging():
                blob = b"".join(row["vector"] for row in block)
                numbers = np.array([row["n"] for row in block], dtype=np.int64)
                rows = np.frombuffer(blob, dtype="<f4").reshape(len(block), -1)
                if rows.shape[1] == 0 or not np.isfinite(rows).all():
                    raise ValueError("a vector that is none")
                last = int(block[-1]["n"]), int(block[-1]["place"])
            yield numbers, rows

    def meta(self, key: str, default: str = "0") -> str:
        """Return one fact about the bank, such as ``version`` (counts changes)."""
        stored = self.query("select value from meta where key = ?", (key,))
        return str(stored[0]["value"]) if stored else default

    def makes(self) -> dict[str, str]:
        """Return what the bank's vectors are made with, by key."""
        facts = self.query("select key, value from meta where key like 'make:%'")
        return {row["key"].removeprefix("make:"): row["value"] for row in facts}

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.query("select count(*) as n from rows")[0]["n"])

    def _check(self, db: Any, facts: Mapping[str, str | None], create: bool) -> None:
        for key, value in facts.items():
            if value is None:
                continue
            stored = db.execute("select value from meta where key = ?", (key,)).fetchone()
            if stored is None and create:
                db.execute("insert into meta values (?, ?)", (key, value))
            elif stored is None or stored["value"] != value:
                there = stored["value"] if stored else "nothing of the kind"
                raise UserError(
                    f"the bank in '{self.folder}' has {key.replace('make:', 'vectors of ')} "
                    f"'{there}', not '{value}': use what it was built with, or build another"
                )


def open_bank(place: str | Path) -> Bank:
    """Open a bank of either kind, without checking what its vectors are made with."""
    return Bank(place, None, {})


def merge(source: Bank, place: str | Path, trust: float = 1.0) -> int:
    """Add the rows of ``source`` to the bank at ``place``, made if it is not there.

    ``trust`` (0 to 1) is that of who made ``source``: no row of it is trusted more.

    Rows that are there already (by id) are left alone; returns how many are new. Raises
    ``UserError`` where the vectors are made with something else.
    """
    target = Bank(place, source.kind, source.makes(), create=True)
    if (target.folder.resolve(), target.path) == (source.folder.resolve(), source.path):
        raise UserError("a bank cannot be merged into itself: name another --out")
    if target.makes() != source.makes():
        raise UserError(
            f"'{place}' holds {sorted(target.makes())} vectors, '{source.folder}' "
            f"{sorted(source.makes())}: merge into a new folder"
        )
    try:
        # Places may be files or databases on any machine: rows pass through here, block by block.
        rows = [_trusted(row, trust) for row in source.rows()]
        blocks = [rows[i : i + _MERGED] for i in range(0, len(rows), _MERGED)]
        added = sum(target.add(with_vectors(source, block)) for block in blocks)
        with target.transaction() as db:
            db.executemany(
                "insert into sources values (?) on conflict do nothing",
                [(row["id"],) for row in source.query("select id from sources")],
            )
    finally:
        target.close()
    return added


def _trusted(row: Row, most: float) -> Row:
    """Return ``row``, trusted no more than ``most``."""
    trust = min(float(row.data.get("trust", 1.0)), most)
    return row if most >= 1.0 else replace(row, data={**row.data, "trust": trust})


def with_vectors(bank: Bank, rows: Sequence[Row]) -> list[Entry]:
    """Return rows with their vectors."""
    marks = ",".join("?" * len(rows))
    query = f"select * from vectors where n in ({marks}) order by n, key, place"  # noqa: S608
    own: dict[int, dict[str, list[Vector]]] = {}
    for line in bank.query(query, [row.n for row in rows]):
        vector = np.frombuffer(line["vector"], dtype="<f4")
        own.setdefault(line["n"], {}).setdefault(line["key"], []).append(vector)
    stacked = {
        n: {key: np.stack(vectors) for key, vectors in keys.items()} for n, keys in own.items()
    }
    return [Entry(row, stacked.get(row.n, {})) for row in rows]


def export_rows(bank: Bank, path: str | Path) -> int:
    """Write all rows (without vectors) as JSON lines, whole or not at all; returns how many."""
    shown = (
        {**{k: v for k, v in vars(row).items() if k not in ("data", "n")}, **row.data}
        for row in bank.rows()
    )
    return write_lines(path, shown)


def _fold(db: Any, id_: str, q: float) -> bool:
    """Count a worth into the mean worth of a row; says whether there is such a row."""
    line = db.execute("select * from rows where id = ?", (id_,)).fetchone()
    if line is None:
        return False
    row = _to_row(line)
    seen = row.data.get("seen", 1)
    db.execute(
        "update rows set q = ?, data = ? where id = ?",
        ((row.q * seen + q) / (seen + 1), _to_json({**row.data, "seen": seen + 1}), id_),
    )
    return True


def _bump(db: Any, key: str) -> None:
    db.execute(
        "insert into meta values (?, '1') on conflict (key) do update"
        " set value = cast(cast(meta.value as integer) + 1 as text)",
        (key,),
    )


def _blobs(n: int, vectors: Mapping[str, Vector]) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield what table ``vectors`` holds of row ``n``. Raises ``UserError`` without a direction."""
    for key, rows in vectors.items():
        for place, vector in enumerate(np.atleast_2d(rows)):
            length = float(np.linalg.norm(vector))
            if not np.isfinite(length) or length == 0:
                raise UserError(f"a vector of '{key}' has no direction (zero or not finite)")
            unit = vector if abs(length - 1.0) < _UNIT else vector / length  # a copy stays as it is
            yield n, key, place, np.asarray(unit, dtype="<f4").tobytes()


def _to_json(data: Mapping[str, Any]) -> str:
    """Return ``data`` as the text of a row."""
    return json.dumps(dict(data))  # ASCII, so that lone surrogates of a broken model fit in


def _to_row(line: Any) -> Row:
    """Return what a line of table ``rows`` says."""
    row = Row(**{**dict(line), "data": parse_json(line["data"])})
    if not (isinstance(row.data, dict) and isinstance(row.id, str) and isinstance(row.task, str)):
        raise ValueError("a row that is none")
    if not all(
        isinstance(value, int | float) for value in (row.q, row.created, row.uses, row.helped)
    ):
        raise ValueError("a number that is none")
    return row
