"""What each browser tab was doing, so that a reload, or the server's restart, goes on with it.

The episode itself is in the graph's checkpoints; kept here is what leads there: the thread, the agent,
and which builder each step was read with. One row of JSON a tab, named by the hash of its secret, in a
SQLite file or in the PostgreSQL database that holds the checkpoints.
"""

import hashlib
import json
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from stategate.stores.errors import UserError
from stategate.stores.files import parse_json
from stategate.stores.sql import Database, Real, Schema, Text, create_tables, is_database

#: Tabs that nobody came back to are removed after so many days.
KEPT_DAYS = 30
#: Tabs held in memory at most; the others are read again when they come back.
_OPEN_TABS = 256
_tabs = sa.Table(
    "tabs",
    sa.MetaData(),
    sa.Column("id", Text, primary_key=True),
    sa.Column("body", Text, nullable=False),
    sa.Column("written", Real, nullable=False),
    sqlite_with_rowid=False,
)
_SCHEMA = Schema("tab sessions", (create_tables(_tabs),), fix="move it away")


class TabSessions:
    """What is kept of tabs, at a place of tables (see ``stores.sql``)."""

    def __init__(self, where: str | Path) -> None:
        self._db = Database(where, _SCHEMA)

    def read(self, tab: str) -> dict[str, Any]:
        """Return what was kept for ``tab``, {} if nothing was, or nothing that can be read."""
        try:
            kept = parse_json(
                self._db.scalar(sa.select(_tabs.c.body).where(_tabs.c.id == _id(tab)))
            )
        except (ValueError, TypeError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def write(self, tab: str, values: Mapping[str, Any]) -> None:
        """Keep ``values`` for ``tab``, replacing what was kept; whole or not at all."""
        row = {"body": json.dumps(dict(values)), "written": time.time()}
        new = self._db.insert(_tabs).values(id=_id(tab), **row)
        with self._db.write() as db:
            db.execute(new.on_conflict_do_update(index_elements=["id"], set_=row))

    def prune(self, days: float = KEPT_DAYS) -> int:
        """Remove tabs not written for ``days``; returns how many."""
        old = _tabs.c.written < time.time() - days * 86_400
        with self._db.write() as db:
            return db.execute(_tabs.delete().where(old)).rowcount


def beside(checkpoints: str | None, folder: Path) -> str | Path:
    """Return where tabs are kept: with the checkpoints that they lead to, if those are shared."""
    if checkpoints is not None and is_database(checkpoints):
        return checkpoints
    return folder / "tabs.sqlite"


def _id(tab: str) -> str:
    return hashlib.sha256(tab.encode()).hexdigest()[:40]


class Turns:
    """Moves of one tab take turns: a second one at once is refused, and one that hangs can be left."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        #: Counts the moves that were left; who waits for one sees it change.
        self.epoch = 0

    @contextmanager
    def taking_turn(self, busy: str, patience: float = 0.0) -> Iterator[Callable[[], bool]]:
        """Hold the turn; yields a function that says whether it was not left.

        Raises ``UserError`` (``busy``) where another move has it for longer than ``patience`` seconds.
        """
        turn = self._turn
        if not turn.acquire(timeout=patience):
            raise UserError(busy)
        try:
            yield lambda: self._turn is turn
        finally:
            turn.release()

    @contextmanager
    def quiet(self, patience: float = 0.2) -> Iterator[bool]:
        """Hold the turn to look on; yields False where a move is being made."""
        turn = self._turn
        is_free = turn.acquire(timeout=patience)
        try:
            yield is_free
        finally:
            if is_free:
                turn.release()

    def leave_turn(self) -> None:
        """Wait no longer for the move that is being made; it may still end by itself."""
        self.epoch += 1
        self._turn = threading.Lock()


Work = TypeVar("Work")


class OpenTabs(Generic[Work]):
    """What every tab works with: open, or made (perhaps found again) by ``load``."""

    def __init__(self, load: Callable[[str], Work]) -> None:
        self._load = load
        self._open: OrderedDict[str, Work] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tab: str | None) -> Work:
        """Return what ``tab`` works with. Raises ``UserError`` for a page without a name."""
        if not tab:
            raise UserError("this page has lost its name: reload it")
        with self._lock:
            work = self._open.get(tab)
        if work is None:
            work = self._load(tab)  # may load a catalogue: others must not wait for it
        with self._lock:
            work = self._open.setdefault(tab, work)
            self._open.move_to_end(tab)
            while len(self._open) > _OPEN_TABS:
                self._open.popitem(last=False)
            return work


def new_thread(prefix: str) -> str:
    """Return the id of a thread that nobody has."""
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:12]}"
