"""Checkpoints: LangGraph's own savers for memory, SQLite and PostgreSQL; locks and pruning of threads.

LangGraph's savers for files and databases are sync; ours run them in threads, so that one graph serves
``invoke`` and ``ainvoke``. LangGraph lets two runs of one thread begin at the same checkpoint, and the
one that ends last wins: so each saver locks its threads, by a file beside a SQLite database or by an
advisory lock in PostgreSQL. A killed process leaves no lock behind.
"""

import asyncio
import hashlib
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from stategate.nodes.registry import suggestion
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import user_path
from stategate.stores.http import from_environment
from stategate.stores.sql import Schema, compact, connect_file, connect_to_read
from stategate.stores.text import storable

#: Seconds that a run waits for another on its thread.
PATIENCE = 120.0


# Locks --------------------------------------------------------------------------------------------


class Busy(UserError):
    """Another run holds the thread."""


#: This process's locks by saver and thread, as long as somebody holds or awaits one.
_locks: "WeakValueDictionary[tuple[int, str], threading.Lock]" = WeakValueDictionary()
_guard = threading.Lock()


def thread_name(thread: object) -> str:
    """Return a thread's id as text. Raises ``UserError`` where no store takes it."""
    if storable(str(thread)) != str(thread):
        raise UserError("a thread's name holds a NUL, or bytes that are no text: name another one")
    return str(thread)


@contextmanager
def thread_lock(saver: object, thread: str, patience: float = PATIENCE) -> Iterator[None]:
    """Hold a thread's lock, in this process and, by a :class:`LockedSaver`, across processes.

    Raises :class:`Busy` after ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    is_busy = f"thread '{thread}' is in use by another run for over {patience:.0f} s"
    busy = Busy(f"{is_busy}: wait for it, stop it, or name another thread")
    with _guard:
        lock = _locks.setdefault((id(saver), thread), threading.Lock())
    if not lock.acquire(timeout=patience):
        raise busy
    try:
        if not isinstance(saver, LockedSaver):
            yield
            return
        while (unlock := saver.try_lock(thread)) is None:
            if time.monotonic() > deadline:
                raise busy
            time.sleep(0.02)
        try:
            yield
        finally:
            unlock()
    finally:
        lock.release()


# Savers -------------------------------------------------------------------------------------------


def _serializer() -> JsonPlusSerializer:
    """Return LangGraph's serialiser, making nothing but plain values, arrays and messages of a file.

    Its default calls whatever function the file names, so that a checkpoint from elsewhere runs code.
    """
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def _in_thread(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the async form of a saver's method ``name``."""

    async def call(self: object, *args: Any, **named: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **named)

    return call


class LockedSaver(BaseCheckpointSaver[Any]):
    """A saver whose threads can be locked across processes; sync methods do for async ones."""

    def try_lock(self, thread: str) -> Callable[[], object] | None:
        """Lock ``thread`` and return what unlocks it; None while another process holds it."""
        raise NotImplementedError

    def thread_ids(self) -> list[str]:
        """Return the ids of all threads, the newest first; no checkpoint is read."""
        raise NotImplementedError

    aget_tuple = _in_thread("get_tuple")
    aput = _in_thread("put")
    aput_writes = _in_thread("put_writes")
    adelete_thread = _in_thread("delete_thread")

    async def alist(self, *args: Any, **named: Any) -> AsyncIterator[CheckpointTuple]:
        """See ``list``."""
        for item in await asyncio.to_thread(lambda: tuple(self.list(*args, **named))):
            yield item


_THREADS = "select thread_id from checkpoints group by 1 order by max(checkpoint_id) desc"
#: For the messages alone: the tables are LangGraph's.
_SCHEMA = Schema("checkpoints", ())


class SqliteCheckpoints(LockedSaver, SqliteSaver):
    """LangGraph's SQLite saver, sync and async; threads are locked by files beside the database."""

    def __init__(self, conn: sqlite3.Connection, path: Path) -> None:
        super().__init__(conn, serde=_serializer())
        self._path = path

    def try_lock(self, thread: str) -> Callable[[], object] | None:
        """Hold the lock file of ``thread``: one of 65,536, by a hash of its name."""
        folder = self._path.with_name(f"{self._path.name}.locks")
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(thread.encode("utf-8", "replace")).hexdigest()[4:8]
        lock = FileLock(folder / name, thread_local=False)
        with suppress(Timeout):
            lock.acquire(blocking=False)
            return lock.release
        return None

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """Yield a cursor; a full disk or a damaged file is a ``UserError``, as in every store."""
        with _SCHEMA.errors(self._path), super().cursor(transaction) as cursor:
            yield cursor

    def thread_ids(self) -> list[str]:
        """See :class:`LockedSaver`."""
        with self.cursor(transaction=False) as cursor:
            return [str(row[0]) for row in cursor.execute(_THREADS)]

    def compact(self) -> None:
        """Give the space of deleted rows back to the disk, where nobody else uses the file."""
        with _SCHEMA.errors(self._path):
            compact(self._path)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See LangGraph, whose SQLite saver has none: keep each thread's latest checkpoint."""
        for thread in thread_ids:
            for table in ("writes", "checkpoints"):
                query = (
                    f"delete from {table} where thread_id = ? and checkpoint_id < ("  # noqa: S608
                    "select max(c.checkpoint_id) from checkpoints c where c.thread_id ="
                    f" {table}.thread_id and c.checkpoint_ns = {table}.checkpoint_ns)"
                )
                with self.cursor() as cursor:
                    cursor.execute(query, (thread,))


def open_saver(where: str | None) -> BaseCheckpointSaver[Any]:
    """Open the saver for a config's ``checkpoints``. Raises ``UserError`` if it cannot."""
    where = None if where is None else from_environment(where)
    if where is None or where == "memory":
        return InMemorySaver(serde=_serializer())
    if where.startswith(("postgresql://", "postgres://")):
        return open_postgres(where)
    path = user_path(where)
    with _SCHEMA.errors(path):
        saver = SqliteCheckpoints(connect_file(path), path)
        query = "select name from sqlite_master where type = 'table'"
        tables = saver.conn.execute(query).fetchall()
        if tables and ("checkpoints",) not in tables:
            raise sqlite3.OperationalError("another program's database")
        saver.setup()
    return saver


def open_for_reading(path: Path) -> SqliteCheckpoints:
    """Open somebody else's SQLite file: nothing is made or changed there. Raises ``UserError``."""
    with user_error_context(f"'{path}' is no database of checkpoints", kinds=sqlite3.Error):
        saver = SqliteCheckpoints(connect_to_read(path), path)
        saver.is_setup = True
        saver.conn.execute("select 1 from checkpoints limit 1")
    return saver


@contextmanager
def _postgres_errors() -> Iterator[None]:
    import psycopg
    from psycopg_pool import PoolTimeout

    errors = (psycopg.Error, PoolTimeout)
    fix = "start it, or check its URL"
    with user_error_context("cannot reach the checkpoint database", fix, errors):
        yield


def open_postgres(url: str, create: bool = True) -> LockedSaver:
    """Open the saver of a PostgreSQL database; unless ``create``, no table is made or changed."""
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    class Pool(ConnectionPool):
        def __del__(self) -> None:
            with suppress(RuntimeError):  # its last user may be a thread of its own
                super().__del__()

    class PostgresCheckpoints(LockedSaver, PostgresSaver):
        """LangGraph's PostgreSQL saver, sync and async, over a pool that reconnects."""

        @contextmanager
        def _cursor(self, *, pipeline: bool = False) -> Iterator[Any]:
            with _postgres_errors(), super()._cursor(pipeline=pipeline) as cursor:
                yield cursor

        def thread_ids(self) -> list[str]:
            """See :class:`LockedSaver`."""
            with self._cursor() as cursor:
                return [str(row["thread_id"]) for row in cursor.execute(_THREADS)]

        def try_lock(self, thread: str) -> Callable[[], object] | None:
            """Hold PostgreSQL's advisory lock of ``thread``, on the one connection of ``locks``."""

            def call(function: str) -> bool:
                query = f"select {function}(hashtextextended(%s, 0))"
                with _postgres_errors(), locks.connection() as connection:
                    return bool(connection.execute(query, (f"stategate {thread}",)).fetchone()[0])
                raise AssertionError("unreachable")

            def unlock() -> None:
                with suppress(UserError):  # where the server is gone, so is the lock
                    call("pg_advisory_unlock")

            return unlock if call("pg_try_advisory_lock") else None

    open_pool: Any = partial(Pool, url, min_size=1, check=Pool.check_connection, open=True)
    autocommit = {"autocommit": True}
    with _postgres_errors():
        # The pool itself would try again and again, and log each: one plain try says what is wrong.
        psycopg.Connection.connect(url, connect_timeout=10).close()
        pool = open_pool(
            max_size=16, kwargs={**autocommit, "row_factory": dict_row, "prepare_threshold": 0}
        )
        # Locks go with their connection, so theirs is never renewed while it works.
        locks = open_pool(max_size=1, max_lifetime=float("inf"), kwargs=autocommit)
        saver = PostgresCheckpoints(pool, serde=_serializer())
        saver.lock = nullcontext()  # type: ignore[assignment]  # each call has its own connection
        if create:
            saver.setup()
    return saver


# Pruning ------------------------------------------------------------------------------------------


def prune(saver: Any, older_than: float | None = None, only: Sequence[str] = ()) -> int:
    """Delete all but the newest checkpoint of each thread: one cannot go back to earlier steps then.

    A thread whose last checkpoint is ``older_than`` seconds old goes whole; returns how many did.
    ``only`` names the threads to look at, all if empty; a thread that is running stays as it is.
    """
    written: dict[str, float] = {}
    for one in saver.list(None):  # the newest first
        at = datetime.fromisoformat(one.checkpoint["ts"]).timestamp()
        written.setdefault(one.config["configurable"]["thread_id"], at)
    if unknown := [thread for thread in only if thread not in written]:
        raise UserError(f"no thread '{unknown[0]}' ({suggestion(unknown[0], written)})")
    whole = 0
    for thread in only or written:
        with suppress(Busy), thread_lock(saver, thread, 0.0):
            if older_than is not None and time.time() - written[thread] > older_than:
                saver.delete_thread(thread)
                whole += 1
            else:
                saver.prune([thread])
    if isinstance(saver, SqliteCheckpoints):
        saver.compact()
    return whole
