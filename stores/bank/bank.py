"""A bank of experience: rows of advice with vectors, in one place that grows safely.

    FOLDER/bank.sqlite    rows, vectors, which sources were read; every write is one transaction

A row and its vectors come and go together, a source is marked as read in the transaction that adds
its rows, and ids are unique: a build that was killed goes on without a double or a loss, and several
processes may write at once.

``banks/NAME`` in ``$STATEGATE_HOME`` is where the command line, the app and the nodes look; a path is
taken as it is. The bank ``state`` is what ``experience`` reads and grows by default; it begins empty.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.stores.sql import Database, Json, Schema, Text, Whole, create_tables, is_database

Vector = NDArray[np.float32]
_metadata = sa.MetaData()
_facts = sa.Table(
    "meta",
    _metadata,
    sa.Column("key", Text, primary_key=True),
    sa.Column("value", Text),
    sqlite_with_rowid=False,
)
#: The rows; their columns are those of :class:`Row`.
row_table = sa.Table(
    "rows",
    _metadata,
    sa.Column("n", Whole, primary_key=True, autoincrement=True),
    sa.Column("id", Text, nullable=False, unique=True),
    sa.Column("task", Text, nullable=False, index=True),
    sa.Column("q", sa.Float, nullable=False),
    sa.Column("data", Json, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sqlite_autoincrement=True,
)
vector_table = sa.Table(
    "vectors",
    _metadata,
    sa.Column("n", Whole, primary_key=True, autoincrement=False),
    sa.Column("key", Text, primary_key=True),
    sa.Column("place", Whole, primary_key=True, autoincrement=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
_sources = sa.Table(
    "sources", _metadata, sa.Column("id", Text, primary_key=True), sqlite_with_rowid=False
)
_BANK = Schema(
    "bank",
    (create_tables(_facts, row_table, vector_table, _sources),),
    fix="build another folder",
)
_FILE = "bank.sqlite"
_KEY = "text"  # what a vector is of
_MAKE = f"make:{_KEY}"
_BLOCK = 8192  # vectors read at once


@dataclass(frozen=True)
class Row:
    """One piece of experience.

    ``task`` groups rows that must not advise each other in a test, ``q`` is the worth (0 to 10),
    ``data`` whatever the kind of bank keeps (plain JSON).
    """

    id: str
    task: str
    q: float
    data: Mapping[str, Any]
    created: float = 0.0
    n: int = -1


@dataclass(frozen=True)
class Entry:
    """A row to add and its vector; where it has several or none, shape ``(m, dimension)``."""

    row: Row
    vectors: Vector = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))


class Bank:
    """A bank's rows. Raises ``UserError`` where they are of another make.

    ``place`` is a folder, or a PostgreSQL database with the bank's name behind ``#``
    (``$STATEGATE_POSTGRES#state``), where other machines may write too.

    ``make`` says what the bank's vectors are made with, such as ``minilm/384/1``. A new bank keeps it
    and its ``kind``, an old one must have them; what is None here is not checked.
    """

    def __init__(
        self, place: str | Path, kind: str | None, make: str | None, create: bool = False
    ) -> None:
        if is_database(place):
            self.db = Database(place, _BANK, name=kind or "state", create=create)
        else:
            file = Path(place).expanduser() / _FILE
            if not create and not file.is_file():
                raise UserError(
                    f"no bank in '{place}': make one with stategate bank build TRACES --out '{place}'"
                )
            self.db = Database(file, _BANK)
        self.path, self.close, self.compact = self.db.path, self.db.close, self.db.compact
        facts = {"kind": kind, _MAKE: make}
        self._check({key: value for key, value in facts.items() if value is not None})
        self.kind, self.make = self.meta("kind"), self.meta(_MAKE, "")

    def add(
        self,
        entries: Iterable[Entry],
        source: str | None = None,
        folded: Iterable[tuple[str, float]] = (),
    ) -> int:
        """Add rows whose id is new and mark ``source`` as read; returns how many were new.

        ``folded`` are (id, worth) of further sightings: a row's worth is the mean over all of them.
        They are not counted again where another process has read the source meanwhile.
        """
        added = 0
        insert_row = self.db.insert(row_table).on_conflict_do_nothing().returning(row_table.c.n)
        with self.db.write() as db:
            if source is not None:
                mark = self.db.insert(_sources).values(id=source).on_conflict_do_nothing()
                # No row count: SQLAlchemy has none (-1) of an insert on PostgreSQL.
                is_new = db.scalar(mark.returning(_sources.c.id)) is not None
                folded = folded if is_new else ()
            for entry in entries:
                values = {k: v for k, v in vars(entry.row).items() if k != "n"}
                values["created"] = entry.row.created or time.time()
                n = db.scalar(insert_row, values)
                if n is not None:
                    added += 1
                    if vectors := _vector_rows(n, entry.vectors):
                        db.execute(vector_table.insert(), vectors)
            changed = sum(_fold(db, id_, q) for id_, q in folded)
            if added or changed:
                self._count_up(db, "version")
        return added

    def is_read(self, source: str) -> bool:
        """Say whether ``source`` was added already."""
        return bool(self.db.rows(sa.select(_sources).where(_sources.c.id == source)))

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove rows by number; their sources stay marked, so that a build brings none back."""
        if not len(numbers):
            return
        with self.db.write() as db:
            for table in (row_table, vector_table):
                gone = table.delete().where(table.c.n == sa.bindparam("gone"))
                db.execute(gone, [{"gone": int(n)} for n in numbers])
            self._count_up(db, "version")
            self._count_up(db, "generation")

    def rows(self, *conditions: sa.ColumnElement[bool]) -> list[Row]:
        """Return the rows that meet conditions on :data:`row_table`, by number."""
        query = sa.select(row_table).where(*conditions).order_by(row_table.c.n)
        return [Row(**line._mapping) for line in self.db.rows(query)]

    def vectors(self, after: int = 0) -> Iterator[tuple[NDArray[np.int64], Vector]]:
        """Yield blocks of (row numbers, vectors) beyond row ``after``, by number."""
        n, place = vector_table.c.n, vector_table.c.place
        query = sa.select(n, place, vector_table.c.vector).where(vector_table.c.key == _KEY)
        query = query.order_by(n, place).limit(_BLOCK)
        last = (after, 1 << 40)
        while block := self.db.rows(query.where(sa.tuple_(n, place) > last)):
            blob = b"".join(row.vector for row in block)
            rows = np.frombuffer(blob, dtype="<f4").reshape(len(block), -1)
            last = int(block[-1].n), int(block[-1].place)
            yield np.array([row.n for row in block], dtype=np.int64), rows

    def meta(self, key: str, default: str = "0") -> str:
        """Return one fact about the bank, such as ``version`` (counts changes)."""
        return self.db.scalar(sa.select(_facts.c.value).where(_facts.c.key == key)) or default

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.db.scalar(sa.select(sa.func.count()).select_from(row_table)))

    def _check(self, facts: Mapping[str, str]) -> None:
        """Require these facts of an old bank, keep them in a new one."""
        with self.db.write() as db:
            stored = {row.key: row.value for row in db.execute(sa.select(_facts))}
            if not stored:
                rows = [{"key": key, "value": value} for key, value in facts.items()]
                db.execute(_facts.insert(), rows)
                return
        for key, value in facts.items():
            if stored.get(key) != value:
                raise UserError(
                    f"the bank '{self.path}' has {key.replace('make:', 'vectors of ')} "
                    f"'{stored.get(key) or 'nothing of the kind'}', not '{value}': use what it was "
                    "built with, or build another"
                )

    def _count_up(self, db: sa.Connection, key: str) -> None:
        value = sa.cast(sa.cast(_facts.c.value, sa.Integer) + 1, sa.Text)
        new = self.db.insert(_facts).values(key=key, value="1")
        db.execute(new.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


def open_bank(place: str | Path) -> Bank:
    """Open a bank of either kind, without checking what its vectors are made with."""
    return Bank(place, None, None)


def bank_place(name: str | Path | None, kind: str = "state") -> str | Path:
    """Return where the bank ``name`` is: a database, a path, the one place, or (None) the default."""
    if name is not None and is_database(name):
        return name
    named = Path(str(name or kind)).expanduser()
    is_path = name is not None and (len(named.parts) > 1 or (named / _FILE).is_file())
    return named if is_path else home() / "banks" / named


def known_banks() -> list[Path]:
    """Return the folders of the banks in the one place, and of those under ``banks/`` here."""
    roots = (home() / "banks", Path("banks"))
    files = [file for root in roots for file in root.glob(f"**/{_FILE}")]
    return sorted({file.parent for file in files if not file.parent.name.startswith(".")})


def _fold(db: sa.Connection, id_: str, q: float) -> bool:
    """Count a worth into the mean worth of a row; says whether there is such a row."""
    own = row_table.c.id == id_
    row = db.execute(sa.select(row_table.c.q, row_table.c.data).where(own)).first()
    if row is None:
        return False
    seen = row.data.get("seen", 1)
    values = {"q": (row.q * seen + q) / (seen + 1), "data": {**row.data, "seen": seen + 1}}
    db.execute(row_table.update().where(own).values(values))
    return True


def _vector_rows(n: int, vectors: Vector) -> list[dict[str, int | str | bytes]]:
    """Return the rows of the vector table of row ``n``. Raises ``UserError`` without a direction."""
    rows: list[dict[str, int | str | bytes]] = []
    for place, vector in enumerate(np.atleast_2d(vectors)):
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0:
            raise UserError("a vector has no direction (zero or not finite)")
        blob = np.asarray(vector / length, dtype="<f4").tobytes()
        rows.append({"n": n, "key": _KEY, "place": place, "vector": blob})
    return rows
