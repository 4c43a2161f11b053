"""One run a thread: runs of equal thread ids wait for each other, in this process and in others.

LangGraph lets two runs of one thread begin at the same checkpoint; the one that ends last wins, and
the other's steps are lost without a word. :class:`LockedGraph` waits for the other run instead. The
lock is a file beside a SQLite database, an advisory lock in PostgreSQL, and this process's own where
checkpoints are in memory. A killed process leaves no lock behind.
"""

import asyncio
import hashlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary, WeakValueDictionary

from langgraph.graph.state import CompiledStateGraph

from stategate.stores.errors import UserError
from stategate.stores.text import storable

#: Seconds that a run waits for another on its thread.
PATIENCE = 120.0
#: The task id under which LangGraph keeps what a caller put in, which is no node's result.
_INPUT = "00000000-0000-0000-0000-000000000000"

#: The locks that this context (a call stack, an asyncio task) holds: a session's step is several runs.
_held: ContextVar[frozenset[tuple[int, str]]] = ContextVar("held threads", default=frozenset())
#: The locks of threads whose checkpoints are in this process, as long as somebody holds or awaits one.
_local: "WeakKeyDictionary[Any, WeakValueDictionary[str, Any]]" = WeakKeyDictionary()
_local_guard = threading.Lock()


class Busy(UserError):
    """Another run holds the thread."""


@runtime_checkable
class LocksThreads(Protocol):
    """A checkpoint saver whose threads can be locked across processes."""

    def thread_lock(self, thread: str, patience: float) -> AbstractContextManager[None]:
        """Return the lock of ``thread``; to enter it raises :class:`Busy` after ``patience`` s."""


class LockedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs of one thread take turns."""

    def stream(self, input: Any, config: Any = None, **more: Any) -> Iterator[Any]:
        """See LangGraph; waits for another run of the thread first."""
        with self.alone(config):
            if input is not None:
                self.finish(config)
            yield from super().stream(input, config, **more)

    async def astream(self, input: Any, config: Any = None, **more: Any) -> AsyncIterator[Any]:
        """See LangGraph; waits for another run of the thread first."""
        key = self._key(config)
        if key is None or key in _held.get():
            async for part in super().astream(input, config, **more):
                yield part
            return
        lock = _lock_of(self.checkpointer, key[1])
        await asyncio.to_thread(lock.__enter__)
        _held.set(_held.get() | {key})
        try:
            if input is not None:
                await asyncio.to_thread(self.finish, config)
            async for part in super().astream(input, config, **more):
                yield part
        finally:
            _held.set(_held.get() - {key})
            await asyncio.to_thread(lock.__exit__, None, None, None)

    @contextmanager
    def alone(self, config: Any) -> Iterator[None]:
        """Hold the lock of the thread of ``config``. Raises ``UserError`` where another keeps it."""
        key = self._key(config)
        if key is None or key in _held.get():
            yield
            return
        with _lock_of(self.checkpointer, key[1]):
            _held.set(_held.get() | {key})
            try:
                yield
            finally:
                _held.set(_held.get() - {key})

    def settle(self, config: Any) -> bool:
        """Apply the results that nodes had written when a kill ended their run; says if there were any.

        LangGraph keeps such results beside the last checkpoint: a run that goes on applies them, a run
        that begins anew would drop a finished step. No node runs here.
        """
        if not self._has_results(config):
            return False
        with self.alone(config):
            if not self._has_results(config):  # they were another run's, which went on meanwhile
                return False
            for _ in super().stream(None, config, interrupt_after="*"):
                pass
        return True

    def finish(self, config: Any) -> None:
        """Settle, and keep a decision that was taken when a kill came: a new task would drop it."""
        self.settle(config)
        if self._key(config) is not None and self.get_state(config).next == ("write_memory",):
            for _ in super().stream(None, config, interrupt_after=["write_memory"]):
                pass

    def _has_results(self, config: Any) -> bool:
        """Say whether the head of the thread has results beside it, and nothing else to wait for."""
        if self._key(config) is None:
            return False
        try:
            saved = self.checkpointer.get_tuple(config)  # type: ignore[union-attr]
        except NotImplementedError:  # a caller's saver that is asynchronous only
            return False
        written = saved is not None and any(
            task != _INPUT and not channel.startswith("__")
            for task, channel, _ in saved.pending_writes or ()
        )
        return written and not self.get_state(config).next

    def _key(self, config: Any) -> tuple[int, str] | None:
        thread = ((config or {}).get("configurable") or {}).get("thread_id")
        if thread is None or not self.checkpointer or isinstance(self.checkpointer, bool):
            return None
        return id(self.checkpointer), thread_name(thread)


def thread_name(thread: Any) -> str:
    """Return a thread's id as text. Raises ``UserError`` where no store takes it."""
    if storable(str(thread)) != str(thread):
        raise UserError("a thread's name holds a NUL, or bytes that are no text: name another one")
    return str(thread)


def _lock_of(saver: Any, thread: str) -> AbstractContextManager[None]:
    if isinstance(saver, LocksThreads):
        return saver.thread_lock(thread, PATIENCE)
    return _local_lock(saver, thread)


@contextmanager
def _local_lock(saver: Any, thread: str) -> Iterator[None]:
    with _local_guard:
        locks = _local.setdefault(saver, WeakValueDictionary())
        lock = locks.setdefault(thread, threading.Lock())
    if not lock.acquire(timeout=PATIENCE):
        raise _busy(thread, PATIENCE)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def file_lock(folder: Path, thread: str, patience: float) -> Iterator[None]:
    """Hold the lock file of ``thread`` in ``folder``: one of 65,536, by a hash of its name."""
    from filelock import FileLock, Timeout

    name = hashlib.sha256(thread.encode("utf-8", "replace")).hexdigest()[4:8]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / name, thread_local=False)
        lock.acquire(timeout=patience, poll_interval=0.02)
    except Timeout:
        raise _busy(thread, patience) from None
    except OSError:  # a disk that cannot be written holds no second writer either
        yield
        return
    try:
        yield
    finally:
        lock.release()


class AdvisoryLocks:
    """PostgreSQL's advisory locks of this process, all on one connection.

    A server that was restarted has forgotten them; they are taken again with the next one.
    """

    def __init__(self, url: str, told: Callable[[], AbstractContextManager[None]]) -> None:
        self._url = url
        self._told = told
        self._connection: Any = None
        self._held: set[str] = set()
        self._guard = threading.Lock()

    @contextmanager
    def hold(self, thread: str, patience: float) -> Iterator[None]:
        """Hold the lock of ``thread``; raises :class:`Busy` after ``patience`` seconds."""
        from psycopg import OperationalError

        deadline = time.monotonic() + patience
        while not self._take(thread):
            if time.monotonic() > deadline:
                raise _busy(thread, patience)
            time.sleep(0.02)
        try:
            yield
        finally:
            # Where the server is gone, so is the lock.
            with self._guard, suppress(OperationalError):
                self._held.discard(thread)
                self._ask("pg_advisory_unlock", thread)

    def _take(self, thread: str) -> bool:
        with self._guard, self._told():
            # The server would let one connection take a lock twice.
            if thread in self._held or not self._ask("pg_try_advisory_lock", thread):
                return False
            self._held.add(thread)
            return True
        raise AssertionError("unreachable")

    def _ask(self, function: str, thread: str) -> bool:
        import psycopg

        for attempt in (1, 2):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg.Connection.connect(self._url, autocommit=True)
                    for held in self._held:
                        self._call("pg_try_advisory_lock", held)
                return self._call(function, thread)
            except psycopg.OperationalError:
                if attempt == 2:
                    raise
                self._connection.close()
        raise AssertionError("unreachable")

    def _call(self, function: str, thread: str) -> bool:
        query = f"select {function}(hashtextextended(%s, 0))"
        return bool(self._connection.execute(query, (f"stategate {thread}",)).fetchone()[0])


def _busy(thread: str, seconds: float) -> Busy:
    return Busy(
        f"thread '{thread}' is in use by another run for over {seconds:.0f} s: wait for it, "
        "stop it, or name another thread"
    )
