"""Checkpoints grow with every step; LangGraph's savers remove whole threads and nothing else.

:func:`threads` says what there is, :func:`prune` keeps the last checkpoints of each thread, or none of
a thread that is old. What is kept can be gone on with; steps whose checkpoints are gone cannot be gone
back to. SQLite and PostgreSQL.
"""

import contextlib
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stategate.graph.checkpoint_parts import sweep
from stategate.graph.checkpoints import SqliteCheckpoints, ticks_of
from stategate.graph.postgres_parts import LOCK, SWEEP
from stategate.stores.errors import UserError

#: Seconds between the calendar of UUIDs (1582) and that of clocks (1970).
_EPOCH = 12_219_292_800


@dataclass(frozen=True)
class Thread:
    """A thread's checkpoints: how many, how large, when the last one was written (Unix time)."""

    thread_id: str
    checkpoints: int
    size: int
    written: float


def threads(saver: Any) -> list[Thread]:
    """Return the threads in ``saver``, the latest first. Raises ``UserError`` for one in memory."""
    size = "length" if isinstance(saver, SqliteCheckpoints) else "octet_length"
    body = "checkpoint" if isinstance(saver, SqliteCheckpoints) else "checkpoint::text::bytea"
    own = _rows(
        saver,
        f"select thread_id, count(*), sum({size}({body})), max(checkpoint_id)"  # noqa: S608 - ours
        " from checkpoints group by thread_id",
    )
    more = _blobs(saver, size)
    found = [
        Thread(name, int(count), int(bytes_ or 0) + more.get(name, 0), written_at(last))
        for name, count, bytes_, last in own
    ]
    return sorted(found, key=lambda thread: -thread.written)


def prune(
    saver: Any,
    keep_last: int = 1,
    older_than: float | None = None,
    only: Sequence[str] = (),
) -> tuple[int, int]:
    """Keep the ``keep_last`` newest checkpoints of each thread; returns (checkpoints, threads) gone.

    Threads whose last checkpoint is ``older_than`` seconds old go whole. ``only`` names the threads to
    look at, all if empty. A checkpoint that is being written at the same time stays.
    """
    if keep_last < 1:
        raise UserError("--keep is a number from 1 on")
    gone_threads = gone = 0
    now = time.time()
    for thread in threads(saver):
        if only and thread.thread_id not in only:
            continue
        if older_than is not None and now - thread.written > older_than:
            saver.delete_thread(thread.thread_id)
            gone_threads += 1
            gone += thread.checkpoints
            continue
        gone += _prune_thread(saver, thread.thread_id, keep_last)
    if isinstance(saver, SqliteCheckpoints) and gone:
        with saver.lock, contextlib.suppress(sqlite3.OperationalError):  # others are at it: later
            saver.conn.execute("vacuum")
            saver.conn.execute("pragma wal_checkpoint(truncate)")
    return gone, gone_threads


def written_at(checkpoint_id: str) -> float:
    """Return when a checkpoint was made (Unix time)."""
    return ticks_of(checkpoint_id) / 1e7 - _EPOCH


def _prune_thread(saver: Any, thread: str, keep: int) -> int:
    mark = "?" if isinstance(saver, SqliteCheckpoints) else "%s"
    spaces = _rows(
        saver,
        f"select distinct checkpoint_ns from checkpoints where thread_id = {mark}",  # noqa: S608
        (thread,),
    )
    gone = 0
    for (space,) in spaces:
        ids = [
            row[0]
            for row in _rows(
                saver,
                f"select checkpoint_id from checkpoints where thread_id = {mark} and"  # noqa: S608
                f" checkpoint_ns = {mark} order by checkpoint_id desc",
                (thread, space),
            )
        ]
        if len(ids) <= keep:
            continue
        oldest_kept = ids[keep - 1]
        tables = ["checkpoints", "writes"]
        if not isinstance(saver, SqliteCheckpoints):
            tables = ["checkpoints", "checkpoint_writes"]
        statements = [
            f"delete from {table} where thread_id = {mark} and checkpoint_ns = {mark}"  # noqa: S608
            f" and checkpoint_id < {mark}"
            for table in tables
        ]
        done = [(statement, (thread, space, oldest_kept)) for statement in statements]
        _execute(saver, done, thread)
        if not isinstance(saver, SqliteCheckpoints):
            _execute(saver, [(LOCK, ()), *((query, (thread, space)) for query in SWEEP)])
        gone += len(ids) - keep
    return gone


def _blobs(saver: Any, size: str) -> dict[str, int]:
    """Return the bytes beside the checkpoints themselves, by thread."""
    tables = [("writes", "value"), ("parts", "body")]
    if not isinstance(saver, SqliteCheckpoints):
        tables = [("checkpoint_writes", "blob"), ("checkpoint_blobs", "blob")]
    total: dict[str, int] = {}
    for table, column in tables:
        query = f"select thread_id, sum({size}({column})) from {table} group by thread_id"  # noqa: S608
        for name, count in _rows(saver, query):
            total[name] = total.get(name, 0) + int(count or 0)
    return total


def _rows(saver: Any, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    if isinstance(saver, SqliteCheckpoints):
        with saver.lock:
            return saver.conn.execute(query, tuple(values)).fetchall()
    if not hasattr(saver, "advisory_lock"):
        raise UserError(
            "checkpoints in memory go with their process: name a file or a PostgreSQL URL"
        )
    with saver._cursor() as cursor:
        return [tuple(row.values()) for row in cursor.execute(query, tuple(values)).fetchall()]


def _execute(
    saver: Any, statements: Sequence[tuple[str, Sequence[Any]]], thread: str | None = None
) -> None:
    """Run statements in one transaction; what ``thread`` then needs no more goes with them."""
    if isinstance(saver, SqliteCheckpoints):
        with saver.lock, saver.conn:
            for query, values in statements:
                saver.conn.execute(query, tuple(values))
            if thread is not None:
                sweep(saver.conn, saver.serde, thread)
        return
    with saver._cursor() as cursor, cursor.connection.transaction():
        for query, values in statements:
            cursor.execute(query, tuple(values))
