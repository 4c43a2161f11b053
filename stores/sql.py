"""One SQL engine under every store: SQLAlchemy Core over a SQLite file or a PostgreSQL database.

    metadata = sa.MetaData()
    notes = sa.Table("notes", metadata, sa.Column("id", Text, primary_key=True), sa.Column("b", Json))
    NOTES = Schema("notes", (create_tables(notes),))       # each migration is applied once, in order

    db = Database("notes.sqlite", NOTES)                   # or "$STATEGATE_POSTGRES#main"
    with db.write() as connection:                         # all of it happens, or nothing
        connection.execute(db.insert(notes).values(id="a", b={}).on_conflict_do_nothing())
    db.rows(sa.select(notes.c.b).where(notes.c.id == "a"))

Writers of a database take turns. A damaged, locked, read-only or newer database, another program's
file and a server that does not answer are each a ``UserError`` in one line, without a password.
Safe for threads and for forked processes.

A PostgreSQL place is a URL or the variable that holds it (``$STATEGATE_POSTGRES``), with a name of its
own behind ``#`` where a database may hold several stores of a kind; each has a schema of its own.
"""

import json
import logging
import os
import re
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from stategate.stores.errors import UserError, describe_error, warn_once
from stategate.stores.files import parse_json, user_path
from stategate.stores.http import from_environment
from stategate.stores.text import one_line, storable, without_password

#: One step from a version of a store to the next. It must do nothing to a store that has it already.
Migration = Callable[[sa.Connection], None]
#: Seconds that a writer of a file waits for others.
PATIENCE = 60.0
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_ENGINES: "weakref.WeakSet[sa.Engine]" = weakref.WeakSet()
#: Connections that came with a fork: neither used nor closed (sqlite.org/howtocorrupt).
_INHERITED: list[sa.Pool] = []


# Column types --------------------------------------------------------------------------------------


class Text(sa.TypeDecorator[str]):
    """Text; NUL and lone surrogates become marks, since no database takes them."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return text that can be stored."""
        return storable(value) if isinstance(value, str) else value


#: A whole number of up to 64 bits; SQLite's primary keys need the word INTEGER.
Whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class Json(sa.TypeDecorator[Any]):
    """A JSON object, as ASCII text."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        """Return the text; a comparison with text stays as it is."""
        return value if value is None or isinstance(value, str) else json.dumps(dict(value))

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return the object."""
        return None if value is None else parse_json(value)


# Places --------------------------------------------------------------------------------------------


def is_database(place: str | Path) -> bool:
    """Say whether ``place`` names a PostgreSQL database, and no file."""
    return str(place).startswith(("postgresql:/", "postgres:/", "$STATEGATE_", "${STATEGATE_"))


def require_file(place: str | None, what: str, flag: str, table: str) -> None:
    """Raise ``UserError`` if the file that ``flag`` names has no ``table``; the file is only read."""
    name = (place or ".").removeprefix("sqlite:///")
    if place is None or is_database(place) or "://" in name:
        return
    if (path := user_path(name)).is_file():
        query = "select 1 from sqlite_master where name = ?"
        try:
            with closing(connect_to_read(path)) as connection:
                if connection.execute(query, (table,)).fetchone():
                    return
        except sqlite3.Error:
            return  # what opens it says what is wrong
    raise UserError(f"no {what} in '{place}': name another; the default one needs no {flag}")


def split_place(place: str | Path, default: str) -> tuple[str, str]:
    """Return the URL and the name behind ``#`` (else ``default``). Raises ``UserError``."""
    address, _, name = str(place).partition("#")
    name = name or default
    if not _NAME.fullmatch(name):
        # It is not quoted: it may be the end of a password.
        rule = "small letters, digits and '_'; a '#' in a password is written as %23"
        raise UserError(f"what follows '#' is no name for tables: {rule}")
    url = from_environment(address)
    if not url.startswith(("postgresql://", "postgres://")):
        raise UserError(
            f"'{without_password(url)}' is no PostgreSQL URL: postgresql://host/database"
        )
    return url, name


# Databases -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schema:
    """What a store is called in messages, its migrations, and how it is kept.

    ``first`` is the version that the first migration makes; stores of an older one are refused.
    Without ``durable`` a power cut may undo a SQLite file's last transactions; a killed process never
    does. A damaged file is refused, with how to ``mend`` it; that of a store which ``is_cache``
    is made anew, empty.
    ``own_schema`` False keeps PostgreSQL's tables in the database's usual schema (versions are in the
    table ``schema_versions`` there).
    """

    what: str
    migrations: tuple[Migration, ...]
    first: int = 1
    fix: str = "name another file"
    mend: str = "put an older copy in its place, or delete it"
    durable: bool = False
    own_schema: bool = True
    is_cache: bool = False

    @contextmanager
    def errors(self, place: Path) -> Iterator[None]:
        """Turn a database's errors into one line, a ``UserError``: what failed, and how to mend it."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            cause = getattr(error, "orig", None) or error
            code, fix = getattr(cause, "sqlite_errorcode", 0) & 0xFF, self.fix
            is_damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
            if is_damaged:
                fix += f"; if it is a damaged one, {self.mend}"
            elif code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                fix = f"make room on its disk, or {fix}"
            line = f"cannot use the {self.what} '{place}' ({describe_error(cause)}): {fix}"
            raise (Damaged if is_damaged else UserError)(line) from error


class Damaged(UserError):
    """A SQLite file is none, or its pages contradict each other."""


class Database:
    """One store's tables in a SQLite file or a PostgreSQL schema (see the module)."""

    def __init__(
        self, place: str | Path, schema: Schema, *, name: str = "main", create: bool = True
    ) -> None:
        """Open ``place``, made if missing and brought up to date. Raises ``UserError``."""
        self.schema = schema
        self.file: Path | None = None
        self._namespace = ""
        if is_database(place):
            url, self.name = split_place(place, name)
            #: For messages.
            self.path = Path(f"postgresql#{self.name}")
            if schema.own_schema:
                self._namespace = f"stategate_{schema.what.replace(' ', '_')}_{self.name}"
            with self.schema.errors(self.path):
                self._engine = _server_engine(url)
        else:
            self.file = self.path = user_path(place)
            self._engine = _file_engine(self.file, schema.durable)
        try:
            self._migrate(create)
        except Damaged:
            if not schema.is_cache:
                raise
            self.make_anew()

    @contextmanager
    def write(self, turn: str = "") -> Iterator[sa.Connection]:
        """Yield a connection in a write transaction: all of it happens, or nothing.

        Writers wait for each other; on PostgreSQL only those that name the same ``turn``.
        """
        with self._transaction("immediate") as connection:
            if self.file is None:
                lock = sa.func.hashtextextended(f"{self._namespace}{turn}", 0)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
            yield connection

    def read(self) -> AbstractContextManager[sa.Connection]:
        """Yield a connection that sees the database as it is at one moment."""
        return self._transaction("deferred")

    def rows(self, statement: sa.Executable) -> Sequence[Any]:
        """Read all rows of one statement."""
        with self.read() as connection:
            return connection.execute(statement).all()

    def scalar(self, statement: sa.Executable) -> Any:
        """Return the first column of the first row, None without rows."""
        rows = self.rows(statement)
        return rows[0][0] if rows else None

    def insert(self, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
        """Return an insert that knows ``on_conflict_do_update`` and ``on_conflict_do_nothing``."""
        return postgresql.insert(table) if self.file is None else sqlite.insert(table)

    def compact(self) -> None:
        """Write a file anew without what was deleted, and empty its log (:func:`compact`)."""
        if self.file is not None:
            with self.schema.errors(self.path):
                compact(self.file)

    def make_anew(self) -> None:
        """Put an empty file in the place of a damaged one, and say so."""
        self.close()
        for ending in ("", "-wal", "-shm"):
            self.path.with_name(f"{self.path.name}{ending}").unlink(missing_ok=True)
        warn_once(f"the {self.schema.what} '{self.path}' was damaged: it is made anew")
        self._migrate(create=True)

    def close(self) -> None:
        """Close a file's connections that are not in use; the next use opens others."""
        if self.file is not None:
            self._engine.dispose()

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[sa.Connection]:
        with self.schema.errors(self.path), self._engine.begin() as connection:
            if self.file is not None:
                connection.exec_driver_sql(f"begin {mode}")
            elif self._namespace:
                connection.exec_driver_sql(f'set local search_path to "{self._namespace}"')
            yield connection

    def _migrate(self, create: bool) -> None:
        what, first = self.schema.what, self.schema.first
        newest = first - 1 + len(self.schema.migrations)
        with self.read() as connection:
            version = self._version(connection)
        if version > newest or 0 < version < first:
            is_newer = version > newest
            fix = "update it, if it is no other store's file" if is_newer else self.schema.fix
            raise UserError(
                f"the {what} '{self.path}' is of version {version}, this Stategate knows "
                f"{newest}: {fix}"
            )
        if not create and not version:
            raise UserError(f"no {what} '{self.path.name}' in the database")
        if version == newest:
            return
        with self.write() as connection:
            if self._namespace:
                connection.exec_driver_sql(f'create schema if not exists "{self._namespace}"')
            if self.file is None:
                self._versions().create(connection, checkfirst=True)
            version = self._version(connection)  # another process may have been first
            done = max(version - first + 1, 0)
            for number, migration in enumerate(self.schema.migrations[done:], first + done):
                migration(connection)
                if self.file is not None:
                    connection.exec_driver_sql(f"pragma user_version = {number}")
                else:
                    row = self._versions().insert().values(version=number, at=time.time())
                    connection.execute(row)

    def _version(self, connection: sa.Connection) -> int:
        if self.file is not None:
            return _file_version(connection)
        versions = self._versions()
        if not sa.inspect(connection).has_table(versions.name):
            return 0
        return connection.scalar(sa.select(sa.func.max(versions.c.version))) or 0

    def _versions(self) -> sa.Table:
        return sa.Table(
            "versions" if self._namespace else "schema_versions",
            sa.MetaData(),
            sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("at", sa.Float),
        )


def create_tables(*tables: sa.Table) -> Migration:
    """Return the migration that makes those of ``tables`` that are missing.

    Raises ``sa.exc.SQLAlchemyError`` in a SQLite file that holds another program's tables alone.
    """

    def migrate(connection: sa.Connection) -> None:
        there = set(sa.inspect(connection).get_table_names())
        is_file = connection.dialect.name == "sqlite"
        is_first = is_file and _file_version(connection) == 0
        if is_first and there and not there & {table.name for table in tables}:
            raise sa.exc.InvalidRequestError("another program's database")
        for table in tables:
            if table.name not in there:
                table.create(connection)

    return migrate


def _file_version(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("pragma user_version").scalar_one())


# Engines -------------------------------------------------------------------------------------------


def _file_engine(path: Path, durable: bool) -> sa.Engine:
    def connect_again() -> sqlite3.Connection:
        connection = connect_file(path, durable)
        connection.isolation_level = None  # transactions begin where we say
        return connection

    engine = sa.create_engine(
        "sqlite://", creator=connect_again, poolclass=sa.QueuePool, max_overflow=-1
    )
    _ENGINES.add(engine)
    return engine


@lru_cache(maxsize=8)
def _server_engine(url: str) -> sa.Engine:
    import psycopg  # noqa: F401 - SQLAlchemy's own error names no extra

    engine = sa.create_engine(
        "postgresql+psycopg://" + url.partition("://")[2],
        pool_size=16,
        pool_pre_ping=True,
        # Stores share connections, and tables of several stores share names.
        connect_args={"connect_timeout": 10, "prepare_threshold": None},
    )
    _ENGINES.add(engine)
    return engine


def _leave_connections_to_parent() -> None:
    for engine in list(_ENGINES):
        _INHERITED.append(engine.pool)
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_leave_connections_to_parent)


# SQLite files --------------------------------------------------------------------------------------


def connect_file(path: Path, durable: bool = True) -> sqlite3.Connection:
    """Open a SQLite file, made if missing, for use by any thread, one at a time.

    It has a write-ahead log, waits for other writers, and overwrites what is deleted. Raises
    ``sqlite3.Error``.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise sqlite3.OperationalError(error.strerror) from None
    connection = sqlite3.connect(path, PATIENCE, check_same_thread=False)
    try:
        _switch_to_log(connection)
        connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma secure_delete = on")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _switch_to_log(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log.

    SQLite refuses some of several processes that do so at once, whatever their busy timeout, so that
    wait is ours.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a SQLite file that is there: nothing is made or changed. Raises ``sqlite3.Error``."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def is_sqlite(path: Path) -> bool:
    """Say whether a file is a SQLite database, by its first bytes. Raises ``OSError``."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def damage_of(path: Path) -> str:
    """Return what is wrong with a SQLite file, by SQLite's quick check; "" for a sound or busy one."""
    try:
        with closing(connect_to_read(path)) as connection:
            found = str(connection.execute("pragma quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError:
        return ""
    except sqlite3.DatabaseError as error:
        found = str(error)
    return "" if found == "ok" else one_line(found)[:80]


def compact(path: Path) -> None:
    """Write the file anew without what was deleted, and empty its log.

    Where another program has the file open that waits until it closes it, and a warning says so.
    Raises ``sqlite3.Error`` where there is no room for that.
    """
    empty_log = "pragma wal_checkpoint(truncate)"
    with closing(sqlite3.connect(path, timeout=5.0, isolation_level=None)) as connection:
        try:
            connection.execute(empty_log)
            connection.execute("vacuum")
            is_busy = bool(connection.execute(empty_log).fetchone()[0])
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            is_busy = True
    if is_busy:
        logging.getLogger(__name__).warning(
            "another program has '%s' open: what was deleted leaves it when that one closes it "
            "(stategate memory prove-forgotten shows what is left)",
            path,
        )
