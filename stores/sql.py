"""One SQL engine under every store: SQLAlchemy Core over a SQLite file or a PostgreSQL database.

    metadata = sa.MetaData()
    notes = sa.Table("notes", metadata, sa.Column("id", Text, primary_key=True), sa.Column("b", Json))
    NOTES = Schema("notes", (create_tables(notes),))       # each migration is applied once, in order

    db = Database("notes.sqlite", NOTES)                   # or "$STATEGATE_POSTGRES#main"
    with db.write() as connection:                         # all of it happens, or nothing
        connection.execute(db.insert(notes).values(id="a", b={}).on_conflict_do_nothing())
    db.rows(sa.select(notes.c.b).where(notes.c.id == "a")) # values are checked: never a wrong type

Writers of a database take turns. A damaged, locked, read-only or newer database, another program's
file and a server that does not answer are each a ``UserError`` in one line, without a password.
Safe for threads and for forked processes.

A PostgreSQL place is a URL or the variable that holds it (``$STATEGATE_POSTGRES``), with a name of its
own behind ``#`` where a database may hold several stores of a kind; each has a schema of its own.
"""

import json
import os
import re
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from stategate.stores.errors import (
    UserError,
    describe_error,
    require_extra,
    user_error_context,
)
from stategate.stores.files import parse_json
from stategate.stores.loopback import from_environment
from stategate.stores.text import storable, without_password

#: What reading a value raises that is not what its column holds.
DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
#: One step from a version of a store to the next. It must do nothing to a store that has it already.
Migration = Callable[[sa.Connection], None]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_ENGINES: "weakref.WeakSet[sa.Engine]" = weakref.WeakSet()
#: Connections that came with a fork: neither used nor closed (sqlite.org/howtocorrupt).
_INHERITED: list[sa.Pool] = []


# Column types --------------------------------------------------------------------------------------


class DamagedValue(ValueError):
    """A stored value is not of its column's type."""


class _CheckedType(sa.TypeDecorator[Any]):
    """A type that refuses what its column cannot hold, when it is read."""

    python_types: tuple[type, ...] = ()

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return the value. Raises ``DamagedValue``."""
        if value is None or isinstance(value, self.python_types):
            return value
        raise DamagedValue(f"{value!r:.40} where {self.python_types[0].__name__} is kept")


class Text(_CheckedType):
    """Text; NUL and lone surrogates become marks, since no database takes them."""

    impl = sa.Text
    cache_ok = True
    python_types = (str,)

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return text that can be stored."""
        return storable(value) if isinstance(value, str) else value


class Real(_CheckedType):
    """A double."""

    impl = sa.Float
    cache_ok = True
    python_types = (float, int)


class Whole(_CheckedType):
    """A whole number of up to 64 bits."""

    impl = sa.BigInteger
    cache_ok = True
    python_types = (int,)

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return INTEGER for SQLite, whose primary keys need that word."""
        is_file = dialect.name == "sqlite"
        return dialect.type_descriptor(sa.Integer() if is_file else sa.BigInteger())


class _PlainBlob(sa.LargeBinary):
    """Bytes as the driver returns them; SQLAlchemy's own would make bytes of a damaged number."""

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> None:
        """Leave values as they are."""


class Blob(_CheckedType):
    """Bytes."""

    impl = sa.LargeBinary
    cache_ok = True
    python_types = (bytes,)

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Return a type that converts nothing."""
        return dialect.type_descriptor(_PlainBlob())


class Json(Text):
    """A JSON object, as ASCII text."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return the text; a comparison with text stays as it is."""
        return value if value is None or isinstance(value, str) else json.dumps(dict(value))

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return the object. Raises ``DamagedValue``."""
        text = super().process_result_value(value, dialect)
        if text is None:
            return None
        try:
            found = parse_json(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise DamagedValue(f"{text:.40} where an object is kept")
        return found


# Places --------------------------------------------------------------------------------------------


def is_database(place: str | Path) -> bool:
    """Say whether ``place`` names a PostgreSQL database, and no file."""
    return str(place).startswith(("postgresql:/", "postgres:/", "$STATEGATE_", "${STATEGATE_"))


def split_place(place: str | Path, default: str) -> tuple[str, str]:
    """Return the URL and the name behind ``#`` (else ``default``). Raises ``UserError``."""
    address, _, name = str(place).partition("#")
    name = name or default
    if not _NAME.fullmatch(name):
        raise UserError(f"'{name}' is no name for tables: small letters, digits and '_'")
    url = from_environment(address)
    if not url.startswith(("postgresql://", "postgres://")):
        raise UserError(
            f"'{without_password(url)}' is no PostgreSQL URL: postgresql://host/database"
        )
    return url, name


# Databases -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schema:
    """What a store is called in messages, its migrations, and how SQLite keeps it.

    Without ``durable`` a power cut may undo the last transactions; a killed process never does.
    ``secure`` overwrites what is deleted. ``own_schema`` False keeps PostgreSQL's tables in the
    database's usual schema (versions are in the table ``schema_versions`` there).
    """

    what: str
    migrations: tuple[Migration, ...]
    fix: str = "name another file"
    patience: float = 30.0
    durable: bool = False
    secure: bool = False
    own_schema: bool = True


class Database:
    """One store's tables in a SQLite file or a PostgreSQL schema (see the module)."""

    def __init__(
        self, place: str | Path, schema: Schema, *, name: str = "main", create: bool = True
    ) -> None:
        """Open ``place``, made if missing and brought up to date. Raises ``UserError``."""
        self.schema = schema
        self._namespace = ""
        if is_database(place):
            url, self.name = split_place(place, name)
            self.file = None
            #: For messages.
            self.path = Path(f"postgresql#{self.name}")
            if schema.own_schema:
                self._namespace = f"stategate_{schema.what.replace(' ', '_')}_{self.name}"
            with self._errors():
                self._engine = _server_engine(url)
        else:
            self.file = self.path = Path(place).expanduser()
            self._engine = _file_engine(self.file, schema)
        with self._errors():
            self._migrate(create)

    @contextmanager
    def write(self, turn: str = "") -> Iterator[sa.Connection]:
        """Yield a connection in a write transaction: all of it happens, or nothing.

        Writers wait for each other; on PostgreSQL only those that name the same ``turn``.
        """
        with self._errors(), self._engine.begin() as connection:
            if self.file is not None:
                connection.exec_driver_sql("begin immediate")
            else:
                self._enter_namespace(connection)
                lock = sa.func.hashtextextended(f"{self._namespace}{turn}", 0)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees the database as it is at one moment."""
        with self._errors(), self._engine.begin() as connection:
            if self.file is not None:
                connection.exec_driver_sql("begin")
            else:
                self._enter_namespace(connection)
            yield connection

    def rows(self, statement: sa.Executable, values: Any = None) -> Sequence[Any]:
        """Read all rows of one statement."""
        if self.file is None:
            with self.read() as connection:
                return connection.execute(statement, values).all()
        with self._errors(), self._engine.connect() as connection:
            return connection.execute(statement, values).all()

    def scalar(self, statement: sa.Executable) -> Any:
        """Return the first column of the first row, None without rows."""
        rows = self.rows(statement)
        return rows[0][0] if rows else None

    def insert(self, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
        """Return an insert that knows ``on_conflict_do_update`` and ``on_conflict_do_nothing``."""
        return postgresql.insert(table) if self.file is None else sqlite.insert(table)

    def damage(self) -> AbstractContextManager[None]:
        """Turn what reading damaged values raises into a ``UserError``."""
        fix = f"restore it from a backup, or {self.schema.fix}"
        return user_error_context(f"the {self.schema.what} '{self.path}' is damaged", fix, DAMAGE)

    def compact(self) -> None:
        """Write a file anew without what was deleted, and empty its log. A busy one is left."""
        if self.file is not None:
            with self._errors():
                compact(self.file)

    def close(self) -> None:
        """Close the connections that are not in use; the next use opens others."""
        if self.file is not None:
            self._engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            reason = describe_error(getattr(error, "orig", None) or error)
            what, fix = self.schema.what, self.schema.fix
            raise UserError(f"cannot use the {what} '{self.path}' ({reason}): {fix}") from error
        except DamagedValue as error:
            with self.damage():
                raise error

    def _enter_namespace(self, connection: sa.Connection) -> None:
        if self._namespace:
            connection.exec_driver_sql(f'set local search_path to "{self._namespace}"')

    def _migrate(self, create: bool) -> None:
        known = len(self.schema.migrations)
        if self.file is not None:
            with self._engine.connect() as connection:
                is_current = _file_version(connection) == known
                if is_current or connection.exec_driver_sql("pragma query_only").scalar():
                    self._require_known(_file_version(connection))
                    return
        with self.write() as connection:
            version = self._stored_version(connection, create)
            self._require_known(version)
            for number, migration in enumerate(self.schema.migrations[version:], version + 1):
                migration(connection)
                if self.file is not None:
                    connection.exec_driver_sql(f"pragma user_version = {number}")
                else:
                    values = {"version": number, "at": time.time()}
                    connection.execute(self._versions().insert().values(values))

    def _require_known(self, version: int) -> None:
        known = len(self.schema.migrations)
        if version > known:
            raise UserError(
                f"the {self.schema.what} '{self.path}' is of version {version}, this Stategate knows "
                f"{known}: update it"
            )

    def _stored_version(self, connection: sa.Connection, create: bool) -> int:
        if self.file is not None:
            return _file_version(connection)
        if self._namespace and not sa.inspect(connection).has_schema(self._namespace):
            if not create:
                raise UserError(f"no {self.schema.what} '{self.name}' in the database")
            connection.exec_driver_sql(f'create schema "{self._namespace}"')
        versions = self._versions()
        versions.create(connection, checkfirst=True)
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


def add_columns(*columns: sa.Column[Any]) -> Migration:
    """Return the migration that adds those of ``columns`` that are missing; each has a default."""

    def migrate(connection: sa.Connection) -> None:
        for column in columns:
            there = {
                known["name"] for known in sa.inspect(connection).get_columns(column.table.name)
            }
            if column.name not in there:
                words = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f'alter table "{column.table.name}" add column {words}')

    return migrate


def _file_version(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("pragma user_version").scalar_one())


# Engines -------------------------------------------------------------------------------------------


def _file_engine(path: Path, schema: Schema) -> sa.Engine:
    def connect_again() -> sqlite3.Connection:
        connection = connect_file(path, schema.patience, schema.durable)
        connection.isolation_level = None  # transactions begin where we say
        if schema.secure:
            connection.execute("pragma secure_delete = on")
        return connection

    engine = sa.create_engine(
        "sqlite://", creator=connect_again, poolclass=sa.QueuePool, max_overflow=-1
    )
    _ENGINES.add(engine)
    return engine


@lru_cache(maxsize=8)
def _server_engine(url: str) -> sa.Engine:
    with require_extra("postgres"):
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


def connect_file(path: Path, patience: float = 30.0, durable: bool = True) -> sqlite3.Connection:
    """Open a SQLite file, made if missing, for use by any thread, one at a time.

    It has a write-ahead log and waits at most ``patience`` seconds for other writers. A file that
    cannot be written (a read-only disk) is opened for reading. Raises ``sqlite3.Error``.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()
    except OSError as error:
        raise sqlite3.OperationalError(error.strerror) from None
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        connection = sqlite3.connect(path, timeout=patience, check_same_thread=False)
        try:
            _prepare(connection, patience, durable)
        except sqlite3.Error:
            connection.close()
            raise
        return connection
    # Beside a file in a folder that is closed to us SQLite cannot keep its shared memory.
    fixed = "" if os.access(path.parent, os.W_OK) else "&immutable=1"
    address = f"file:{quote(str(path.resolve()))}?mode=ro{fixed}"
    reader = sqlite3.connect(address, uri=True, timeout=patience, check_same_thread=False)
    reader.execute("pragma query_only = on")
    return reader


def _prepare(connection: sqlite3.Connection, patience: float, durable: bool) -> None:
    """Set what every writing connection has.

    SQLite refuses some of several processes that switch a new database to its write-ahead log at once,
    whatever their busy timeout, so that wait is ours.
    """
    connection.execute(f"pragma busy_timeout = {int(patience * 1000)}")
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
    connection.execute("pragma foreign_keys = on")


def is_sqlite(path: Path) -> bool:
    """Say whether a file is a SQLite database.

    SQLite itself looks: to open and close the file here would drop the locks that this process has on
    it (sqlite.org/howtocorrupt, 2.2). Raises ``OSError`` where there is no such file.
    """
    if not path.stat().st_size or not path.is_file():
        return False
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)
        try:
            connection.execute("pragma schema_version")
        finally:
            connection.close()
    except sqlite3.OperationalError:
        return True  # busy, or in a folder that is closed to us
    except sqlite3.DatabaseError:
        return False
    return True


def compact(path: Path) -> None:
    """Write the file anew without what was deleted, and empty its log; a busy one is left.

    Raises ``sqlite3.Error`` where there is no room for that.
    """
    connection = sqlite3.connect(path, timeout=5.0, isolation_level=None)
    try:
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        # Another process reads it: its free pages are overwritten in time.
    finally:
        connection.close()


def tables_holding(place: str | Path, forms: Iterable[bytes]) -> list[str]:
    """Return the tables, in any schema of a PostgreSQL database, that hold one of ``forms``."""
    columns = sa.text(
        "select table_schema, table_name, column_name from information_schema.columns"
        " where table_schema not in ('pg_catalog', 'information_schema')"
        " and data_type in ('text', 'character varying', 'bytea', 'jsonb')"
    )
    forms = list(forms)
    holding: dict[str, None] = {}
    with _server_engine(split_place(place, "main")[0]).connect() as connection:
        quoted = connection.dialect.identifier_preparer.quote_identifier
        for schema, table, column in connection.execute(columns).all():
            name = quoted(column)
            # A backslash in a text is no escape here: texts become bytes as they are.
            query = (
                f"select 1 from {quoted(schema)}.{quoted(table)} where position(:form in"  # noqa: S608
                f" case when pg_typeof({name}) = 'bytea'::regtype then {name}::text::bytea"
                f" else convert_to({name}::text, 'UTF8') end) > 0 limit 1"
            )
            query = query.replace("::", r"\:\:")
            if any(connection.execute(sa.text(query), {"form": form}).first() for form in forms):
                holding[f"{schema}.{table}"] = None
    return list(holding)
