"""Tables of ours by place: a SQLite file, or a schema of a PostgreSQL database that others share.

A store writes its statements once, in the SQL that both speak, with ``?`` for values. A PostgreSQL
place is a URL or the variable that holds it (``$STATEGATE_POSTGRES``), with a name of its own behind
``#`` where a database may hold several stores of a kind. The variable keeps the password out of configs
and of the list of processes.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from stategate.stores.errors import UserError, require_extra, user_error_context
from stategate.stores.loopback import from_environment
from stategate.stores.sqlite import SqliteFile, belonging
from stategate.stores.text import storable, without_password

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
#: SQLite's words for what PostgreSQL calls otherwise.
_WORDS = (
    (r"integer primary key autoincrement", "bigserial primary key"),
    (r"\breal\b", "double precision"),
    (r"\bblob\b", "bytea"),
    (r"\)\s*without rowid", ")"),
)
WAIT = 30.0  # seconds for a connection


def is_database(where: str | Path) -> bool:
    """Say whether ``where`` names a PostgreSQL database, and no file."""
    return str(where).startswith(("postgresql:/", "postgres:/", "$STATEGATE_", "${STATEGATE_"))


def split_place(where: str | Path, usual: str) -> tuple[str, str]:
    """Return the URL and the name behind ``#`` (``usual`` without). Raises ``UserError``."""
    place, _, name = str(where).partition("#")
    name = name or usual
    if not _NAME.fullmatch(name):
        raise UserError(f"'{name}' is no name for tables: small letters, digits and '_'")
    url = from_environment(place)
    if not url.startswith(("postgresql://", "postgres://")):
        raise UserError(
            f"'{without_password(url)}' is no PostgreSQL URL: postgresql://host/database"
        )
    return url, name


class PostgresTables:
    """One schema of a PostgreSQL database; has what :class:`stores.sqlite.SqliteFile` has.

    Writers of a schema take turns, as those of a SQLite file do. Every fault is a ``UserError`` in one
    line, without the password.
    """

    def __init__(
        self,
        where: str | Path,
        what: str,
        migrations: Sequence[str],
        *,
        name: str,
        fix: str = "name another file",
        create: bool = True,
    ) -> None:
        self._url, self.name = split_place(where, name)
        self._schema = f"stategate_{what.replace(' ', '_')}_{self.name}"
        self.path = Path(f"postgresql#{self.name}")  # for messages
        self._words = (what, fix)
        self._migrate(migrations, create)

    @contextmanager
    def transaction(self) -> Iterator["Link"]:
        """Yield a connection in a write transaction: all of it happens, or nothing."""
        with self._link() as link:
            link.execute("select pg_advisory_xact_lock(hashtextextended(?, 0))", (self._schema,))
            yield link

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Read rows."""
        with self._link() as link:
            return link.execute(statement, values).fetchall()  # type: ignore[no-any-return]

    def belonging(self) -> AbstractContextManager[None]:
        """Tell what reading rows raises that hold what does not belong there, as a file's does."""
        return belonging(self.path, *self._words)

    def close(self) -> None:
        """Do nothing: connections are shared, and closed with the process."""

    @contextmanager
    def _link(self) -> Iterator["Link"]:
        with require_extra("postgres"):
            import psycopg
            from psycopg_pool import PoolTimeout
        what, fix = self._words
        with (
            user_error_context(
                f"cannot use the {what} '{self.path}'", fix, (psycopg.Error, PoolTimeout)
            ),
            _pool(self._url, os.getpid()).connection() as db,
            db.transaction(),
        ):
            db.execute(f'set local search_path to "{self._schema}"')
            yield Link(db)

    def _migrate(self, migrations: Sequence[str], create: bool) -> None:
        with self.transaction() as db:
            there = "select 1 from information_schema.schemata where schema_name = ?"
            if db.execute(there, (self._schema,)).fetchone() is None:
                if not create:
                    raise UserError(f"no {self._words[0]} '{self.name}' in the database")
                db.execute(f'create schema "{self._schema}"')
            db.execute("create table if not exists versions (version integer primary key, at real)")
            known = db.execute("select coalesce(max(version), 0) from versions").fetchone()[0]
            if known > len(migrations):
                raise UserError(
                    f"the {self._words[0]} '{self.path}' is of version {known}, this Stategate knows "
                    f"{len(migrations)}: update it"
                )
            for number, script in enumerate(migrations[known:], known + 1):
                for statement in script.split(";"):
                    if statement.strip():
                        db.execute(_translated(statement))
                db.execute("insert into versions values (?, ?)", (number, time.time()))


class Link:
    """A connection that takes statements as SQLite's does; rows have numbers and names."""

    def __init__(self, db: Any) -> None:
        self._db = db

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement; returns its cursor."""
        return self._db.execute(_marked(statement), _plain(values))

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        with self._db.cursor() as cursor:
            cursor.executemany(_marked(statement), [_plain(row) for row in rows])


class Row(tuple[Any, ...]):
    """A row whose values are found by number or by name, as ``sqlite3.Row``'s are."""

    names: tuple[str, ...]

    def keys(self) -> tuple[str, ...]:
        """Return the names, in order."""
        return self.names

    def __getitem__(self, key: Any) -> Any:
        """Return one value."""
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)


def open_tables(
    where: str | Path,
    what: str,
    migrations: Sequence[str],
    *,
    fix: str = "name another file",
    create: bool = True,
    **sqlite: Any,
) -> SqliteFile | PostgresTables:
    """Open the tables at ``where``, made if missing. ``sqlite`` is for :class:`SqliteFile` alone."""
    if is_database(where):
        return PostgresTables(where, what, migrations, name="main", fix=fix, create=create)
    return SqliteFile(where, what, migrations, fix=fix, **sqlite)


def tables_holding(where: str | Path, forms: Iterable[bytes]) -> list[str]:
    """Return the tables, in any schema of the database, that hold one of ``forms`` in any column."""
    import psycopg
    from psycopg import sql

    url, _ = split_place(where, "main")
    columns = (
        "select table_schema, table_name, column_name from information_schema.columns"
        " where table_schema not in ('pg_catalog', 'information_schema')"
        " and data_type in ('text', 'character varying', 'bytea', 'jsonb')"
    )
    found: dict[str, None] = {}
    with psycopg.connect(url, connect_timeout=10) as db:
        for schema, table, column in db.execute(columns).fetchall():
            # A backslash in a text is no escape here: texts become bytes as they are.
            query = sql.SQL(
                "select 1 from {}.{} where position(%s in case when pg_typeof({}) = 'bytea'::regtype"
                " then {}::text::bytea else convert_to({}::text, 'UTF8') end) > 0 limit 1"
            ).format(*map(sql.Identifier, (schema, table, column, column, column)))
            for form in forms:
                if db.execute(query, (form,)).fetchone():
                    found[f"{schema}.{table}"] = None
    return list(found)


def open_pool(url: str, least: int, settings: Mapping[str, Any]) -> Any:
    """Return a pool of connections to ``url`` with psycopg's ``settings``; a lost one is made anew.

    Raises psycopg's error where the first cannot be had.
    """
    with require_extra("postgres"):
        import psycopg
        from psycopg_pool import ConnectionPool

    class Pool(ConnectionPool):
        def __del__(self) -> None:
            with suppress(
                RuntimeError
            ):  # its last user may be a thread of its own, not to be joined
                super().__del__()

    # The pool itself would try again and again, and log each: one plain try says what is wrong.
    psycopg.Connection.connect(url, connect_timeout=10).close()
    return Pool(
        url,
        min_size=least,
        max_size=16,
        timeout=WAIT,
        kwargs=dict(settings),
        check=ConnectionPool.check_connection,
        open=True,
    )


@lru_cache(maxsize=8)
def _pool(url: str, process: int) -> Any:
    """Return the connections of a process to a database."""
    with require_extra("postgres"):
        import psycopg

    def with_names(cursor: Any) -> Any:
        names = tuple(column.name for column in cursor.description or ())

        def row(values: Sequence[Any]) -> Row:
            made = Row(values)
            made.names = names
            return made

        return row

    # Values are sent inside the statement: `? is null or x = ?` has no type of its own.
    settings = {
        "autocommit": True,
        "cursor_factory": psycopg.ClientCursor,
        "row_factory": with_names,
    }
    return open_pool(url, 0, settings)


def _translated(statement: str) -> str:
    for pattern, word in _WORDS:
        statement = re.sub(pattern, word, statement, flags=re.IGNORECASE)
    return statement


@lru_cache(maxsize=512)
def _marked(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


def _plain(values: Sequence[Any]) -> list[Any]:
    return [
        int(v) if isinstance(v, bool) else storable(v) if isinstance(v, str) else v for v in values
    ]
