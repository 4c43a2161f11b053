"""One writer a thread: runs of equal thread ids take turns, in this process and in others.

LangGraph lets two runs of one thread begin at the same checkpoint, and the one that ends last wins;
the other's turn is lost without a word. :class:`TurnGraph` waits for the other run instead, and gives
up after :data:`PATIENCE` seconds with a line that names the thread. What is locked lies where the
checkpoints lie: a file beside a SQLite database, an advisory lock in PostgreSQL, this process where
checkpoints are in memory. A killed process leaves no lock behind.
"""

import asyncio
import hashlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from langgraph.graph.state import CompiledStateGraph

from stategate.stores.errors import UserError
from stategate.stores.text import storable

#: Seconds that a run waits for another on its thread.
PATIENCE = 120.0
#: Names of lock files: as many threads at most hold files of their own.
_BUCKETS = 1 << 16
#: The task id under which LangGraph keeps what a caller put in, which is no node's result.
_INPUT = "00000000-0000-0000-0000-000000000000"

#: What this context (a call stack, or an asyncio task) holds already: a session's move is several runs.
_held: ContextVar[frozenset[tuple[int, str]]] = ContextVar("held threads", default=frozenset())
#: The turns of threads whose checkpoints are in this process, as long as somebody holds or awaits one.
_local: "WeakKeyDictionary[Any, WeakValueDictionary[str, Any]]" = WeakKeyDictionary()
_local_guard = threading.Lock()


class TurnGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose runs of one thread take turns."""

    def stream(self, input: Any, config: Any = None, **more: Any) -> Iterator[Any]:
        """See LangGraph; waits for another run of the thread first."""
        with self.alone(config):
            if input is not None:
                self.finish(config)
            yield from super().stream(input, config, **more)

    async def astream(self, input: Any, config: Any = None, **more: Any) -> AsyncIterator[Any]:
        """See LangGraph; waits for another run of the thread first."""
        turn = self.alone(config)
        key = self._key(config)
        if key is None or key in _held.get():
            async for part in super().astream(input, config, **more):
                yield part
            return
        await asyncio.to_thread(turn.__enter__)
        _held.set(_held.get() | {key})  # the thread's own context ended with it
        try:
            if input is not None:
                await asyncio.to_thread(self.finish, config)
            async for part in super().astream(input, config, **more):
                yield part
        finally:
            _held.set(_held.get() - {key})
            await asyncio.to_thread(turn.__exit__, None, None, None)

    @contextmanager
    def alone(self, config: Any) -> Iterator[None]:
        """Hold the turn of the thread of ``config``. Raises ``UserError`` where another keeps it."""
        key = self._key(config)
        if key is None or key in _held.get():
            yield
            return
        with turn_of(self.checkpointer, key[1]):
            _held.set(_held.get() | {key})
            try:
                yield
            finally:
                _held.set(_held.get() - {key})

    def settle(self, config: Any) -> bool:
        """Apply what nodes had written when a kill ended their run; says whether there was anything.

        LangGraph keeps such writes beside the last checkpoint: a run that goes on applies them, a run
        that begins anew would drop a finished step. No node runs here.
        """
        if not self._is_left(config):
            return False
        with self.alone(config):
            if not self._is_left(config):  # it was another run's, which went on meanwhile
                return False
            for _ in super().stream(None, config, interrupt_after="*"):
                pass
        return True

    def _is_left(self, config: Any) -> bool:
        """Say whether the head of the thread has results beside it, and nothing else to wait for."""
        if self._key(config) is None:
            return False
        try:
            saved = self.checkpointer.get_tuple(config)  # type: ignore[union-attr]
        except NotImplementedError:  # a saver of somebody's that is asynchronous only
            return False
        written = saved is not None and any(
            task != _INPUT and not channel.startswith("__")
            for task, channel, _ in saved.pending_writes or ()
        )
        return written and not self.get_state(config).next

    def finish(self, config: Any) -> None:
        """Settle, and keep a decision that was taken when a kill came: a new task would drop it."""
        self.settle(config)
        if self._key(config) is not None and self.get_state(config).next == ("write_memory",):
            for _ in super().stream(None, config, interrupt_after=["write_memory"]):
                pass

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


def turn_of(saver: Any, thread: str) -> AbstractContextManager[None]:
    """Return the turn of ``thread`` in ``saver``, to be held with ``with``."""
    place = getattr(saver, "lock_folder", None)
    if place is not None:
        return _file_turn(place, thread)
    advisory = getattr(saver, "advisory_lock", None)
    if advisory is not None:
        return _waited(thread, advisory)
    return _local_turn(saver, thread)


@contextmanager
def _file_turn(folder: Path, thread: str) -> Iterator[None]:
    from filelock import FileLock, Timeout

    bucket = int.from_bytes(hashlib.sha256(thread.encode("utf-8", "replace")).digest()[:4])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{bucket % _BUCKETS:04x}", thread_local=False)
        lock.acquire(timeout=PATIENCE, poll_interval=0.02)
    except Timeout:
        raise _busy(thread) from None
    except OSError:  # a disk that cannot be written holds no second writer either
        yield
        return
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _waited(thread: str, advisory: Callable[[str], Any]) -> Iterator[None]:
    """Try the database's own lock until it is had; None from ``advisory`` says that another has it."""
    deadline = time.monotonic() + PATIENCE
    while (release := advisory(thread)) is None:
        if time.monotonic() > deadline:
            raise _busy(thread)
        time.sleep(0.02)
    try:
        yield
    finally:
        release()


@contextmanager
def _local_turn(saver: Any, thread: str) -> Iterator[None]:
    with _local_guard:
        locks = _local.setdefault(saver, WeakValueDictionary())
        lock = locks.setdefault(thread, threading.Lock())
    if not lock.acquire(timeout=PATIENCE):
        raise _busy(thread)
    try:
        yield
    finally:
        lock.release()


def _busy(thread: str) -> UserError:
    return UserError(
        f"thread '{thread}' is in use by another run for over {PATIENCE:.0f} s: wait for it, "
        "stop it, or name another thread"
    )
