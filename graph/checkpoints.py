"""Checkpoints: LangGraph's own savers for memory, SQLite and PostgreSQL; listing and pruning threads.

LangGraph's savers for files and databases are either sync or async; ours run the sync ones in threads,
so that one graph serves ``invoke`` and ``ainvoke``.
"""

import asyncio
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from stategate.graph.old_checkpoints import Serializer, convert, require_current_version
from stategate.graph.thread_lock import AdvisoryLocks, Busy, file_lock
from stategate.stores.errors import UserError, require_extra, user_error_context
from stategate.stores.loopback import from_environment
from stategate.stores.sqlite import connect

#: Seconds from the calendar of UUIDs (1582) to that of clocks (1970).
_EPOCH = 12_219_292_800


class InThreads(BaseCheckpointSaver[Any]):
    """Async methods of a saver that has only sync ones; ids that sort after those already there."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See LangGraph."""
        found = super().get_tuple(config)
        if found is not None:
            _sort_after(found.checkpoint["id"])
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See ``get_tuple``."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, *args: Any, **named: Any) -> AsyncIterator[CheckpointTuple]:
        """See ``list``."""
        for item in await asyncio.to_thread(lambda: tuple(self.list(*args, **named))):
            yield item

    async def aput(self, *args: Any, **named: Any) -> RunnableConfig:
        """See ``put``."""
        return await asyncio.to_thread(self.put, *args, **named)

    async def aput_writes(self, *args: Any, **named: Any) -> None:
        """See ``put_writes``."""
        await asyncio.to_thread(self.put_writes, *args, **named)

    async def adelete_thread(self, thread_id: str) -> None:
        """See ``delete_thread``."""
        await asyncio.to_thread(self.delete_thread, thread_id)


def _sort_after(checkpoint_id: str) -> None:
    """Let the checkpoints that this process writes next sort after ``checkpoint_id``.

    Ids are times, and the largest is a thread's state: on a clock that went back a step would be older
    than the one before it, and lost.
    """
    with suppress(ValueError):
        last = getattr(ids, "_last_v6_timestamp", None) or 0
        vars(ids)["_last_v6_timestamp"] = max(last, _ticks(checkpoint_id))


def _ticks(checkpoint_id: str) -> int:
    """Return when a checkpoint was made: a UUID 6 begins with the 100 ns since 1582."""
    number = uuid.UUID(checkpoint_id).int
    return (number >> 80) << 12 | (number >> 64) & 0xFFF


class SqliteCheckpoints(InThreads, SqliteSaver):
    """LangGraph's SQLite saver, sync and async; threads are locked by files beside the database."""

    def __init__(self, conn: sqlite3.Connection, locks: Path | None = None) -> None:
        super().__init__(conn, serde=Serializer())
        self._locks = locks

    def thread_lock(self, thread: str, patience: float) -> AbstractContextManager[None]:
        """Return the lock of ``thread``, to be held with ``with``."""
        return nullcontext() if self._locks is None else file_lock(self._locks, thread, patience)

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """Yield a cursor; a full disk or a damaged file is a ``UserError``, as in every store."""
        with _failures(), super().cursor(transaction) as cursor:
            yield cursor

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement with ``?`` for values; returns its rows."""
        with self.cursor() as cursor:
            return cursor.execute(query, tuple(values)).fetchall()

    def compact(self) -> None:
        """Give the space of deleted rows back to the disk, where nobody else uses the file."""
        with self.lock, suppress(sqlite3.OperationalError):
            self.conn.execute("vacuum")
            self.conn.execute("pragma wal_checkpoint(truncate)")


_failures = partial(
    user_error_context,
    "cannot use the checkpoints",
    "make room, or name another file",
    sqlite3.Error,
)


def open_saver(where: str | None) -> BaseCheckpointSaver[Any]:
    """Open the saver for a config's ``checkpoints``. Raises ``UserError`` if it cannot."""
    where = None if where is None else from_environment(where)
    if where is None or where == "memory":
        return InMemorySaver(serde=Serializer())
    if where.startswith(("postgresql://", "postgres://")):
        return _postgres(where)
    path = Path(where).expanduser()
    with user_error_context(
        f"cannot use '{path}' for checkpoints", "name another file", kinds=sqlite3.Error
    ):
        saver = SqliteCheckpoints(connect(path), path.with_name(f"{path.name}.locks"))
        saver.setup()
        convert(saver.conn, saver.serde)
    return saver


def open_for_reading(path: Path) -> SqliteCheckpoints:
    """Open somebody else's SQLite file: nothing is made there. Raises ``UserError``."""
    with user_error_context(f"'{path}' is no database of checkpoints", kinds=sqlite3.Error):
        uri = f"{path.expanduser().resolve().as_uri()}?mode=ro"
        saver = SqliteCheckpoints(sqlite3.connect(uri, uri=True, check_same_thread=False))
        saver.is_setup = True
        saver.rows("select 1 from checkpoints limit 1")
    return saver


def _postgres(url: str) -> BaseCheckpointSaver[Any]:
    with require_extra("postgres"):
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg import Error
        from psycopg.rows import dict_row
        from psycopg_pool import PoolTimeout

        from stategate.stores.tables import open_pool

    told = partial(
        user_error_context, "cannot reach the checkpoint database", kinds=(Error, PoolTimeout)
    )

    class PostgresCheckpoints(InThreads, PostgresSaver):
        """LangGraph's PostgreSQL saver, sync and async, over a pool that reconnects."""

        def get_next_version(self, current: Any, channel: None) -> str:
            """See LangGraph."""
            return super().get_next_version(require_current_version(current), channel)

        @contextmanager
        def _cursor(self, *, pipeline: bool = False) -> Iterator[Any]:
            with told(), super()._cursor(pipeline=pipeline) as cursor:
                yield cursor

        def thread_lock(self, thread: str, patience: float) -> AbstractContextManager[None]:
            """Return the lock of ``thread``, to be held with ``with``."""
            return locks.hold(thread, patience)

        def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            """Run a statement with ``?`` for values; returns its rows."""
            with self._cursor() as cursor:
                found = cursor.execute(query.replace("?", "%s"), tuple(values))
                return [tuple(row.values()) for row in found] if found.description else []

    with told():
        settings = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}
        saver = PostgresCheckpoints(open_pool(url, 1, settings), serde=Serializer())
        saver.lock = nullcontext()  # type: ignore[assignment]  # each call has its own connection
        saver.setup()
    locks = AdvisoryLocks(url, told)
    return saver


# Listing and pruning ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Thread:
    """A thread's checkpoints: how many, how many bytes, when the last was written (Unix time)."""

    thread_id: str
    checkpoints: int
    size: int
    written: float


def threads(saver: Any) -> list[Thread]:
    """Return the threads in ``saver``, the latest first. Raises ``UserError`` for one in memory."""
    _require_stored(saver)
    bytes_of, blobs = "length(checkpoint)", {"writes": "length(value)"}
    if not isinstance(saver, SqliteCheckpoints):
        bytes_of = "octet_length(checkpoint::text)"
        blobs = dict.fromkeys(("checkpoint_writes", "checkpoint_blobs"), "octet_length(blob)")
    total: dict[str, int] = {}
    for table, size in {"checkpoints": bytes_of, **blobs}.items():
        query = f"select thread_id, sum({size}) from {table} group by thread_id"  # noqa: S608
        for name, count in saver.rows(query):
            total[name] = total.get(name, 0) + int(count or 0)
    query = "select thread_id, count(*), max(checkpoint_id) from checkpoints group by thread_id"
    found = [
        Thread(name, int(count), total[name], _ticks(last) / 1e7 - _EPOCH)
        for name, count, last in saver.rows(query)
    ]
    return sorted(found, key=lambda thread: -thread.written)


def prune(
    saver: Any,
    keep_last: int = 1,
    older_than: float | None = None,
    only: Sequence[str] = (),
) -> tuple[int, int]:
    """Delete all but the ``keep_last`` newest checkpoints of each thread.

    A thread whose last checkpoint is ``older_than`` seconds old goes whole. ``only`` names the threads
    to look at, all if empty; a thread that is running stays as it is. Returns how many checkpoints
    went, and how many whole threads. One cannot go back to a step whose checkpoints are gone.
    """
    if keep_last < 1:
        raise UserError("--keep is a number from 1 on")
    gone = gone_threads = 0
    for thread in threads(saver):
        if only and thread.thread_id not in only:
            continue
        with suppress(Busy), saver.thread_lock(thread.thread_id, 0.0):
            if older_than is not None and time.time() - thread.written > older_than:
                saver.delete_thread(thread.thread_id)
                gone_threads += 1
                gone += thread.checkpoints
            else:
                gone += _prune_thread(saver, thread.thread_id, keep_last)
    if isinstance(saver, SqliteCheckpoints) and gone:
        saver.compact()
    return gone, gone_threads


def _prune_thread(saver: Any, thread: str, keep: int) -> int:
    writes = "writes" if isinstance(saver, SqliteCheckpoints) else "checkpoint_writes"
    gone = 0
    query = (
        "select checkpoint_ns, checkpoint_id from checkpoints where thread_id = ? order by 2 desc"
    )
    by_space: dict[str, list[str]] = {}
    for space, checkpoint in saver.rows(query, (thread,)):
        by_space.setdefault(space, []).append(checkpoint)
    for space, checkpoints in by_space.items():
        if len(checkpoints) <= keep:
            continue
        for table in (writes, "checkpoints"):
            query = (
                f"delete from {table} where thread_id = ? and checkpoint_ns = ?"  # noqa: S608 - ours
                " and checkpoint_id < ?"
            )
            saver.rows(query, (thread, space, checkpoints[keep - 1]))
        if not isinstance(saver, SqliteCheckpoints):
            saver.rows(_DROP_BLOBS, (thread, space))
        gone += len(checkpoints) - keep
    return gone


#: Deletes the channel values that no checkpoint of a thread names any more (PostgreSQL).
_DROP_BLOBS = """delete from checkpoint_blobs b where b.thread_id = ? and b.checkpoint_ns = ?
and not exists (
    select 1 from checkpoints c where c.thread_id = b.thread_id
    and c.checkpoint_ns = b.checkpoint_ns
    and c.checkpoint->'channel_versions'->>b.channel = b.version
)"""


def _require_stored(saver: Any) -> None:
    if isinstance(saver, InMemorySaver):
        raise UserError(
            "checkpoints in memory go with their process: name a file or a PostgreSQL URL"
        )
