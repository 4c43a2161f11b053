"""A bank of experience: rows of advice with vectors, in a database that grows safely.

    FOLDER/bank.sqlite    rows, vectors, sources read; every write is one transaction

A row and its vector are written and removed together, a source is marked as read in the transaction
that adds its rows, and ids are unique: a killed build resumes without duplicates or losses, and
several processes may write at once.

Search is exact: every vector of the bank is kept in memory and compared.

Command line, app and nodes read ``$STATEGATE_HOME/banks/NAME``; a path is taken as it is. The context
kind ``experience`` reads and grows the bank ``state`` by default; it begins empty.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from stategate.stores.errors import UserError
from stategate.stores.files import user_path
from stategate.stores.home import home
from stategate.stores.sql import Database, Json, Schema, Text, Whole, create_tables, is_database

Vector = NDArray[np.float32]
_metadata = sa.MetaData()
_meta = sa.Table(
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
    (create_tables(_meta, row_table, vector_table, _sources),),
    fix="build another folder",
    mend="delete it and build it again",
)
_FILE = "bank.sqlite"
_KEY = "text"  # what a vector embeds
_MAKE = f"make:{_KEY}"  # meta key of the vectors' embedder and format


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
class Hit:
    """A search result: a row and its cosine with the query."""

    row: Row
    score: float


class Bank:
    """Rows and exact vector search. Raises ``UserError`` for a bank of another ``kind`` or ``make``.

    ``place`` is a folder, or a PostgreSQL database with the bank's name behind ``#``
    (``$STATEGATE_POSTGRES#state``), where other machines may write too.

    ``kind`` is "state" (one row a past decision, found by the state that it was taken in) or "trace"
    (one row an episode, found by its question), ``make`` what its vectors are made with, such as
    ``minilm/384/1``. A new bank stores both, an old one must match; None is not checked.
    """

    def __init__(
        self,
        place: str | Path,
        kind: str | None = None,
        make: str | None = None,
        create: bool = False,
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
        self._version = ""
        #: The vectors in memory, read anew after a change, and the numbers of their rows (ascending).
        self._vectors, self._numbers = np.zeros((0, 0), np.float32), np.zeros(0, np.int64)

    def add(
        self,
        entries: Iterable[tuple[Row, Vector | None]],
        source: str | None = None,
        folded: Iterable[tuple[str, float]] = (),
    ) -> int:
        """Add the rows with new ids and mark ``source`` as read; return the number of new rows.

        ``entries`` are rows with their vectors; a row without one is found by no search. ``folded``
        are (id, worth) of repetitions of rows: a row's worth is the mean over all. They are not counted
        again if another process has read the source meanwhile.
        """
        added = 0
        insert_row = self.db.insert(row_table).on_conflict_do_nothing().returning(row_table.c.n)
        with self.db.write() as db:
            if source is not None:
                mark = self.db.insert(_sources).values(id=source).on_conflict_do_nothing()
                # Not `rowcount`: SQLAlchemy returns -1 for an insert on PostgreSQL.
                is_new = db.scalar(mark.returning(_sources.c.id)) is not None
                folded = folded if is_new else ()
            for row, vector in entries:
                values = {k: v for k, v in vars(row).items() if k != "n"}
                values["created"] = row.created or time.time()
                n = db.scalar(insert_row, values)
                if n is not None:
                    added += 1
                    if vector is not None:
                        unit = {"vector": _unit(vector).tobytes()}
                        db.execute(vector_table.insert().values(n=n, key=_KEY, place=0, **unit))
            changed = sum(_fold(db, id_, q) for id_, q in folded)
            if added or changed:
                self._count_change(db)
        return added

    def is_read(self, source: str) -> bool:
        """Say whether ``source`` was added already."""
        return bool(self.db.rows(sa.select(_sources).where(_sources.c.id == source)))

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove rows by number; their sources stay marked as read, so no build adds them again."""
        if not len(numbers):
            return
        with self.db.write() as db:
            for table in (row_table, vector_table):
                delete = table.delete().where(table.c.n == sa.bindparam("number"))
                db.execute(delete, [{"number": int(n)} for n in numbers])
            self._count_change(db)

    def rows(self, *conditions: sa.ColumnElement[bool]) -> list[Row]:
        """Return the rows that meet conditions on :data:`row_table`, by number."""
        query = sa.select(row_table).where(*conditions).order_by(row_table.c.n)
        return [Row(**line._mapping) for line in self.db.rows(query)]

    def search(self, query: Vector, k: int, hidden: Collection[int] = ()) -> list[Hit]:
        """Return the ``k`` rows nearest to ``query``, best first, without those numbered ``hidden``.

        Raises ``UserError`` for a query of another dimension.
        """
        version = self.meta("version")
        if version != self._version:
            self._vectors, self._numbers = self.vectors()
            self._version = version
        length = float(np.linalg.norm(query))
        if k <= 0 or length == 0 or not len(self._numbers):
            return []
        if len(query) != self._vectors.shape[1]:
            raise UserError(
                f"the bank '{self.path}' does not hold vectors of size {len(query)} "
                f"(size {self._vectors.shape[1]}): use the embedder it was built with"
            )
        cosines = self._vectors @ np.asarray(query / length, dtype=np.float32)
        allowed = np.flatnonzero(~np.isin(self._numbers, list(hidden)))
        order = allowed[np.argsort(-cosines[allowed], kind="stable")[:k]]
        scores = {int(self._numbers[i]): float(cosines[i]) for i in order[::-1]}
        rows = self.rows(row_table.c.n.in_(list(scores)))
        return sorted((Hit(row, scores[row.n]) for row in rows), key=lambda hit: -hit.score)

    def vectors(self) -> tuple[Vector, NDArray[np.int64]]:
        """Return all vectors, and the numbers of their rows (ascending)."""
        n, place = vector_table.c.n, vector_table.c.place
        query = sa.select(n, vector_table.c.vector).where(vector_table.c.key == _KEY)
        lines = self.db.rows(query.order_by(n, place))
        blob = b"".join(line.vector for line in lines)
        width = len(blob) // 4 // max(len(lines), 1)
        numbers = np.array([line.n for line in lines], dtype=np.int64)
        return np.frombuffer(blob, dtype="<f4").reshape(len(lines), width), numbers

    def meta(self, key: str, default: str = "0") -> str:
        """Return a value of the meta table, such as ``version`` (counts changes)."""
        return self.db.scalar(sa.select(_meta.c.value).where(_meta.c.key == key)) or default

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.db.scalar(sa.select(sa.func.count()).select_from(row_table)))

    def _check(self, facts: Mapping[str, str]) -> None:
        """Store ``facts`` in a new bank; raise ``UserError`` where an old bank's differ."""
        with self.db.write() as db:
            stored = {row.key: row.value for row in db.execute(sa.select(_meta))}
            if not stored:
                rows = [{"key": key, "value": value} for key, value in facts.items()]
                db.execute(_meta.insert(), rows)
                return
        for key, value in facts.items():
            if stored.get(key) != value:
                raise UserError(
                    f"the bank '{self.path}' has {key.replace('make:', 'vectors of ')} "
                    f"'{stored.get(key) or 'nothing of the kind'}', not '{value}': use what it was "
                    "built with, or build another"
                )

    def _count_change(self, db: sa.Connection) -> None:
        value = sa.cast(sa.cast(_meta.c.value, sa.Integer) + 1, sa.Text)
        new = self.db.insert(_meta).values(key="version", value="1")
        db.execute(new.on_conflict_do_update(index_elements=["key"], set_={"value": value}))


def bank_place(name: str | Path | None, kind: str = "state") -> str | Path:
    """Return the bank ``name``'s database, path or folder in ``$STATEGATE_HOME``; None: ``kind``'s."""
    if name is not None and is_database(name):
        return name
    named = user_path(str(name or kind))
    is_path = name is not None and (len(named.parts) > 1 or (named / _FILE).is_file())
    return named if is_path else home() / "banks" / named


def known_banks() -> list[Path]:
    """Return the folders of banks in ``$STATEGATE_HOME/banks`` and in ``./banks``, sorted."""
    roots = (home() / "banks", Path("banks"))
    files = [file for root in roots for file in root.glob(f"**/{_FILE}")]
    return sorted({file.parent for file in files if not file.parent.name.startswith(".")})


def _fold(db: sa.Connection, id_: str, q: float) -> bool:
    """Update a row's mean worth by one more value; say whether the row exists."""
    is_row = row_table.c.id == id_
    row = db.execute(sa.select(row_table.c.q, row_table.c.data).where(is_row)).first()
    if row is None:
        return False
    count = row.data.get("seen", 1)
    values = {"q": (row.q * count + q) / (count + 1), "data": {**row.data, "seen": count + 1}}
    db.execute(row_table.update().where(is_row).values(values))
    return True


def _unit(vector: Vector) -> Vector:
    """Return ``vector`` at length one. Raises ``UserError`` for zero or not finite ones."""
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length == 0:
        raise UserError("a vector has no direction (zero or not finite)")
    return np.asarray(vector / length, dtype="<f4")
