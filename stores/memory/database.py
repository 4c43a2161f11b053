"""The database under long-term memory: SQLite in WAL by default, PostgreSQL by URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stores.errors import UserError
from stores.memory import schema as tables
from stores.memory.records import Namespace
from stores.sqlite import prepare


class Database:
    """The engine of one memory. Safe for threads and processes; raises ``UserError`` if unusable."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._engine = _engine(url)
            with self.transaction(None) as db:
                tables.migrate(db)
        except (sa.exc.SQLAlchemyError, OSError, ImportError) as error:
            raise _unusable(url, error) from None

    @contextmanager
    def transaction(
        self, namespace: Namespace | None, writes: bool = True
    ) -> Iterator[sa.Connection]:
        """One transaction; writers of a database (SQLite) or a namespace (PostgreSQL) take turns.

        Two sessions that write the same fact at once would otherwise both find none to merge with.
        """
        try:
            with self._engine.begin() as db:
                if self._engine.dialect.name == "sqlite":
                    db.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
                elif writes:
                    name = (
                        "migrations" if namespace is None else f"{namespace.user}/{namespace.agent}"
                    )
                    db.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(name))))
                yield db
        except sa.exc.SQLAlchemyError as error:
            raise _unusable(self.url, error) from error


def within(table: sa.Table, namespace: Namespace) -> tuple[Any, Any]:
    """Return the conditions that keep a query to the namespace's own rows."""
    return table.c.user == namespace.user, table.c.agent == namespace.agent


def key_of(made: sa.CursorResult[Any]) -> int:
    """Return the id of the row that was just inserted."""
    return int((made.inserted_primary_key or (0,))[0])


def _engine(url: str) -> sa.Engine:
    if url.startswith(("postgresql://", "postgres://")):
        url = "postgresql+psycopg://" + url.partition("://")[2]
        return sa.create_engine(url, pool_size=16, pool_pre_ping=True)
    if not url.startswith("sqlite:"):
        raise UserError("long-term memory is a file or a sqlite:/// or postgresql:// URL")
    Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, connect_args={"timeout": 60})

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # The driver's own BEGIN comes too late and too weak; `transaction` sends it (SQLAlchemy's
        # documented recipe for SQLite).
        connection.isolation_level = None
        prepare(connection, 60.0)

    return engine


def _unusable(url: str, error: Exception) -> UserError:
    shown = sa.engine.make_url(url).render_as_string(hide_password=True) if "://" in url else url
    told = " ".join(str(getattr(error, "orig", None) or error).split())[:160]
    return UserError(f"cannot use the long-term memory {shown} ({told}): name another")
