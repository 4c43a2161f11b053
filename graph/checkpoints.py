"""Where a graph's checkpoints go: memory, SQLite (sync and async), or PostgreSQL."""

import asyncio
import secrets
import sqlite3
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.base import id as ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from stategate.graph.checkpoint_parts import SCHEMA, Packed, PackedWrites, Parts, PartsSerde
from stategate.stores.errors import require_extra, user_error_context
from stategate.stores.loopback import from_environment
from stategate.stores.sqlite import connect


class AsyncInThreads(BaseCheckpointSaver[Any]):
    """Async methods that run a saver's sync ones in a thread.

    LangGraph's savers for SQLite and PostgreSQL are sync or async; an agent of ours serves
    ``invoke`` and ``ainvoke`` over one connection.
    """

    async def aget_tuple(self, *args: Any, **named: Any) -> CheckpointTuple | None:
        """See ``get_tuple``."""
        return await asyncio.to_thread(self.get_tuple, *args, **named)

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


def ticks_of(checkpoint_id: str) -> int:
    """Return when a checkpoint was made, in the 100 ns since 1582 that its id (UUID 6) begins with."""
    number = uuid.UUID(checkpoint_id).int
    return (number >> 80) << 12 | (number >> 64) & 0xFFF


def sort_after(checkpoint_id: str | None) -> None:
    """Let the checkpoints that this process writes from here on sort after ``checkpoint_id``.

    Their ids are times and the last one is the thread's state: on a clock that went back, or on a
    machine whose clock is behind, a step would be older than the one before it, and lost.
    """
    with suppress(ValueError):
        if checkpoint_id is not None:
            last = max(getattr(ids, "_last_v6_timestamp", None) or 0, ticks_of(checkpoint_id))
            vars(ids)["_last_v6_timestamp"] = last


def strict_serde() -> PartsSerde:
    """Return a serialiser that makes nothing but plain values, arrays and messages of a checkpoint.

    LangGraph's own default calls whatever function the file names, so that a checkpoint from elsewhere
    runs code; ``LANGGRAPH_STRICT_MSGPACK`` need not be set here.
    """
    return PartsSerde(allowed_msgpack_modules=None)


class SqliteCheckpoints(AsyncInThreads, SqliteSaver):
    """LangGraph's SQLite saver, sync and async, that writes what changed (``graph.checkpoint_parts``).

    Checkpoints that LangGraph's own saver wrote are read as they are. ``lock_folder`` is where runs of
    one thread take turns (``graph.one_writer``).
    """

    lock_folder: Path | None = None
    serde: PartsSerde

    def __init__(self, conn: sqlite3.Connection) -> None:
        super().__init__(conn, serde=strict_serde())
        self.serde = strict_serde()
        # A checkpoint and its parts are one transaction, through LangGraph's method, which locks too.
        self.lock = threading.RLock()  # type: ignore[assignment]

    def setup(self) -> None:
        """See LangGraph."""
        if not self.is_setup:
            super().setup()
            if not self.conn.execute("pragma query_only").fetchone()[0]:
                self.conn.executescript(SCHEMA)

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """Yield a cursor; a full disk or a damaged file is a ``UserError``, as in every store."""
        with _failures(), super().cursor(transaction) as cursor:
            yield cursor

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Count versions as plain integers: the package's strings cost 2 KB in each checkpoint."""
        if isinstance(current, str):  # a thread that LangGraph's own saver began
            return super().get_next_version(current, channel)
        return 1 if current is None else int(current) + 1

    def put(
        self, config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
    ) -> RunnableConfig:
        """See LangGraph."""
        with self._writing(config) as parts:
            return super().put(config, parts.pack(checkpoint), metadata, new_versions)  # type: ignore[arg-type]

    def put_writes(
        self, config: RunnableConfig, writes: Any, task_id: str, task_path: str = ""
    ) -> None:
        """See LangGraph; a task's plain results are one row."""
        if not writes or any(channel in WRITES_IDX_MAP for channel, _ in writes):
            super().put_writes(config, writes, task_id, task_path)
            return
        with self._writing(config) as parts:
            packed = PackedWrites([channel, parts.keep(value)] for channel, value in writes)
            super().put_writes(config, [("", packed)], task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See LangGraph."""
        about = config["configurable"]
        last = (
            "select max(checkpoint_id) from checkpoints where thread_id = ? and checkpoint_ns = ?"
        )
        with self.lock:
            found = super().get_tuple(config)
            where = (str(about["thread_id"]), about.get("checkpoint_ns", ""))
            sort_after(self.conn.execute(last, where).fetchone()[0])
            return found and self._whole(found)

    def list(self, *args: Any, **named: Any) -> Iterator[CheckpointTuple]:
        """See LangGraph."""
        return map(self._whole, super().list(*args, **named))

    def delete_thread(self, thread_id: str) -> None:
        """See LangGraph."""
        with self.lock:
            self.setup()
            self.conn.execute("delete from parts where thread_id = ?", (str(thread_id),))
            super().delete_thread(thread_id)

    # LangGraph's fast way reads the tables itself; the plain one asks get_tuple.
    get_delta_channel_history = BaseCheckpointSaver.get_delta_channel_history

    @contextmanager
    def _writing(self, config: RunnableConfig) -> Iterator[Parts]:
        """Hold a write transaction, which LangGraph's own method then commits."""
        with self.lock, _failures():
            self.setup()
            if not self.conn.in_transaction:
                self.conn.execute("begin immediate")
            try:
                yield Parts(self.conn, self.serde, str(config["configurable"]["thread_id"]))
            except BaseException:
                self.conn.rollback()
                raise

    def _whole(self, found: CheckpointTuple) -> CheckpointTuple:
        """Return what was read with every part in its place."""
        about = found.config["configurable"]
        parts = Parts(self.conn, self.serde, str(about["thread_id"]))
        checkpoint: Any = found.checkpoint
        if isinstance(checkpoint, Packed):
            checkpoint = parts.unpack(checkpoint, str(about["checkpoint_id"]))
        pending: list[tuple[str, str, Any]] = []
        for task, channel, value in found.pending_writes or ():
            if isinstance(value, PackedWrites):
                pending += [(task, name, parts.get(child)) for name, child in value]
            else:
                pending.append((task, channel, value))
        return found._replace(checkpoint=checkpoint, pending_writes=pending)


#: Tells of a full disk or a damaged file in one line, as every store does.
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
        return InMemorySaver(serde=strict_serde())
    if where.startswith(("postgresql://", "postgres://")):
        return _postgres(where)
    path = Path(where).expanduser()
    with user_error_context(
        f"cannot use '{path}' for checkpoints", "name another file", kinds=sqlite3.Error
    ):
        saver = SqliteCheckpoints(connect(path))
        saver.setup()
        saver.lock_folder = path.with_name(f"{path.name}.locks")
    return saver


class _AdvisoryLocks:
    """Advisory locks of this process, all on one connection: a thousand threads need no thousand.

    A server that was restarted has forgotten them; they are taken again with the next one.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._held: set[str] = set()
        self._guard = threading.Lock()

    def take(self, name: str) -> Callable[[], None] | None:
        """Take the lock ``name`` and return what gives it back, None where somebody has it."""
        with self._guard:
            if name in self._held:  # the server would let one connection take it twice
                return None
            if not self._ask("pg_try_advisory_lock", name):
                return None
            self._held.add(name)
        return partial(self._give_back, name)

    def _give_back(self, name: str) -> None:
        from psycopg import OperationalError

        # Where the server is gone, so is the lock; what went wrong meanwhile is told by then.
        with self._guard, suppress(OperationalError):
            self._held.discard(name)
            self._ask("pg_advisory_unlock", name)

    def _ask(self, function: str, name: str) -> bool:
        import psycopg

        query = f"select {function}(hashtextextended(%s, 0))"
        for attempt in (1, 2):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._connect()
                    for held in self._held:
                        again = "select pg_try_advisory_lock(hashtextextended(%s, 0))"
                        self._connection.execute(again, (held,))
                return bool(self._connection.execute(query, (name,)).fetchone()[0])
            except psycopg.OperationalError:
                if attempt == 2:
                    raise
                self._connection.close()
        raise AssertionError("unreachable")


def _postgres(url: str) -> BaseCheckpointSaver[Any]:
    with require_extra("postgres"):
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg import Connection, Error
        from psycopg.rows import dict_row
        from psycopg_pool import PoolTimeout

        from stategate.graph.postgres_parts import taken_out, with_parts
        from stategate.stores.tables import open_pool

    told = partial(
        user_error_context, "cannot reach the checkpoint database", kinds=(Error, PoolTimeout)
    )

    class PostgresCheckpoints(AsyncInThreads, PostgresSaver):
        """LangGraph's PostgreSQL saver, sync and async, over connections that come back.

        What a node writes is written again as its channel's value: a large one is a part, kept once
        under its hash, and both rows name it.
        """

        SELECT_SQL = with_parts(PostgresSaver.SELECT_SQL)
        # LangGraph's fast way reads the tables itself; the plain one asks get_tuple.
        get_delta_channel_history = BaseCheckpointSaver.get_delta_channel_history

        def get_next_version(self, current: Any, channel: None) -> str:
            """Count versions in 10 characters, the last four telling forks apart.

            The package's 50 stand in each checkpoint once for every channel; they, and the 13 of
            before, sort before these.
            """
            first, dot, _ = str(current or "0.").partition(".")
            count = int(first) if dot else int(first[:6], 16)
            return f"{count + 1:06x}{secrets.token_hex(2)}"

        def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
            """See LangGraph."""
            about = config["configurable"]
            with self._cursor() as cursor:
                row = cursor.execute(
                    "select max(checkpoint_id) as last from checkpoints"
                    " where thread_id = %s and checkpoint_ns = %s",
                    (about["thread_id"], about.get("checkpoint_ns", "")),
                ).fetchone()
            sort_after(str(row["last"]) if row and row["last"] else None)
            return super().get_tuple(config)

        @contextmanager
        def _cursor(self, *, pipeline: bool = False) -> Iterator[Any]:
            with told(), super()._cursor(pipeline=pipeline) as cursor:
                yield cursor

        def _dump_blobs(self, *args: Any) -> Any:
            rows, parts = taken_out(super()._dump_blobs(*args))
            return [*parts, *rows]

        def put_writes(
            self, config: RunnableConfig, writes: Any, task_id: str, task_path: str = ""
        ) -> None:
            """See LangGraph."""
            about = config["configurable"]
            where = (about["thread_id"], about["checkpoint_ns"], about["checkpoint_id"])
            rows, parts = taken_out(self._dump_writes(*where, task_id, task_path, writes))
            is_special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
            with self._cursor(pipeline=True) as cursor:
                cursor.executemany(self.UPSERT_CHECKPOINT_BLOBS_SQL, parts)
                cursor.executemany(
                    self.UPSERT_CHECKPOINT_WRITES_SQL
                    if is_special
                    else self.INSERT_CHECKPOINT_WRITES_SQL,
                    rows,
                )

        def advisory_lock(self, thread: str) -> Callable[[], None] | None:
            """Take the turn of ``thread`` and return what ends it; None where another has it."""
            with told():
                return self._turns.take(f"stategate {thread}".replace("\0", ""))
            raise AssertionError("unreachable")

        _turns = _AdvisoryLocks(lambda: Connection.connect(url, autocommit=True))

    with told():
        settings = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0}
        pool = open_pool(url, 1, settings)
        saver = PostgresCheckpoints(pool, serde=strict_serde())
        # The pool hands each call a connection of its own.
        saver.lock = nullcontext()  # type: ignore[assignment]
        saver.setup()
    checked: BaseCheckpointSaver[Any] = saver
    return checked
