"""SQLite opened in one way: a write-ahead log, patience with other writers, schema versions.

Connections belong to one thread and one process. Every fault of a file (damaged, another program's,
written by a newer version, not writable) is a ``UserError`` in one line.
"""

import os
import re
import sqlite3
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stategate.stores.errors import UserError, user_error_context

#: What a value raises, where it is read, that is not what its column holds.
DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
#: Connections that came with a fork of the process: neither used nor closed (sqlite.org/howtocorrupt).
_INHERITED: list[sqlite3.Connection] = []
_HEAD = b"SQLite format 3\0"
#: Open connections of this process by their file (device, inode).
_OPEN: Counter[tuple[int, int]] = Counter()
_COUNTING = threading.RLock()  # again by a connection that is collected meanwhile
_TABLE = re.compile(r"create table (?:if not exists )?(\w+)", re.IGNORECASE)


def prepare(db: sqlite3.Connection, patience: float = 30.0, durable: bool = True) -> None:
    """Set what every writing connection of ours has; waits at most ``patience`` seconds for others.

    Without ``durable`` a power cut may undo the last transactions; a killed process never does.
    Of several who switch a new database to its write-ahead log at once SQLite refuses some whatever
    their busy timeout, so that wait is ours. Raises ``sqlite3.OperationalError`` when patience ends.
    """
    db.execute(f"pragma busy_timeout = {int(patience * 1000)}")
    deadline = time.monotonic() + patience
    while True:
        try:
            db.execute("pragma journal_mode = wal")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    db.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
    db.execute("pragma foreign_keys = on")


def connect(path: Path, patience: float = 30.0, durable: bool = True) -> sqlite3.Connection:
    """Open ``path`` for use by any thread, one at a time. Raises ``sqlite3.Error``.

    A file that cannot be written (a read-only disk) is opened for reading. One that is no database is
    refused at once: beside a damaged log SQLite takes it for a busy one.
    """
    try:
        own = _counted(path)
    except OSError as error:
        raise sqlite3.OperationalError(error.strerror) from None
    common: Any = {"timeout": patience, "check_same_thread": False, "factory": own}
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        db: sqlite3.Connection = sqlite3.connect(path, **common)
        try:
            prepare(db, patience, durable)
        except sqlite3.Error:
            db.close()
            raise
        return db
    # Beside a file in a folder that is closed to us SQLite cannot keep its shared memory.
    fixed = "" if os.access(path.parent, os.W_OK) else "&immutable=1"
    address = f"{path.resolve().as_uri()}?mode=ro{fixed}"
    reader: sqlite3.Connection = sqlite3.connect(address, uri=True, **common)
    reader.execute("pragma query_only = on")
    return reader


class _Counted(sqlite3.Connection):
    """One of the connections that this process has to a file."""

    key: tuple[int, int]

    def __init__(self, *args: Any, **settings: Any) -> None:
        with _COUNTING:
            _OPEN[self.key] += 1
        self._gone = weakref.finalize(self, _forget, self.key)
        super().__init__(*args, **settings)

    def close(self) -> None:
        super().close()
        self._gone()


def _counted(path: Path) -> type[_Counted]:
    """Look at a file's head, or make it; return the class of connections to it.

    The head is looked at only while this process has no connection to the file: to close a file drops
    every lock that its process has on it (sqlite.org/howtocorrupt, 2.2), and another process would take
    the database for its own and delete the log that ours writes to. Raises ``OSError``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _COUNTING:
        if not path.exists():
            path.open("ab").close()
        elif path.stat().st_size and not is_sqlite(path):
            raise sqlite3.DatabaseError("file is not a database")
        facts = path.stat()
    return type("Counted", (_Counted,), {"key": (facts.st_dev, facts.st_ino)})


def is_sqlite(path: Path) -> bool:
    """Say whether a file is a database. One that this process has open is, and is not read for it.

    Raises ``OSError``.
    """
    with _COUNTING:
        facts = path.stat()
        if _OPEN[facts.st_dev, facts.st_ino]:
            return True
        with path.open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD


def _forget(key: tuple[int, int]) -> None:
    with _COUNTING:
        _OPEN[key] -= 1


def is_in_use(path: Path) -> bool:
    """Say whether somebody else has the database open; if not, all of it is in this one file now."""
    try:
        db = sqlite3.connect(path, timeout=0)
        try:
            db.execute("pragma journal_mode = delete")  # refused while others have the log open
            db.execute("begin exclusive")
        finally:
            db.close()
    except sqlite3.OperationalError:
        return True
    except sqlite3.DatabaseError:
        return False  # damaged, or no database
    return False


def compact(path: Path) -> None:
    """Write the database anew without what was deleted, and empty its log; a busy one is left.

    Raises ``sqlite3.Error`` where there is no room for that.
    """
    db = sqlite3.connect(path, timeout=5.0, isolation_level=None)
    try:
        db.execute("pragma wal_checkpoint(truncate)")
        db.execute("vacuum")
        db.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        # Another process reads it: its free pages are overwritten in time.
    finally:
        db.close()


def belonging(path: Path, what: str, fix: str) -> AbstractContextManager[None]:
    """Turn what reading damaged rows raises into one line, a ``UserError``."""
    return user_error_context(
        f"the {what} '{path}' is damaged", f"restore it from a backup, or {fix}", DAMAGE
    )


class SqliteFile:
    """One SQLite file of ours, safe for threads and processes; rows are ``sqlite3.Row``.

    ``what`` and ``fix`` are words of its errors: "cannot use the WHAT 'PATH' (…): FIX". Each of the
    ``migrations`` (statements that end in ";") is applied once, in order, as ``user_version`` counts;
    the first must do nothing to a file that has its tables already.
    """

    def __init__(
        self,
        path: str | Path,
        what: str,
        migrations: Sequence[str],
        *,
        fix: str = "name another file",
        patience: float = 30.0,
        durable: bool = False,
    ) -> None:
        self.path = Path(path).expanduser()
        self._words = (what, fix)
        self._errors = partial(
            user_error_context, f"cannot use the {what} '{self.path}'", fix, sqlite3.Error
        )
        self._migrations = migrations
        self._settings = (patience, durable)
        self._local = threading.local()
        with self._errors():
            self._migrate(self._connection())

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection in a write transaction: all of it happens, or nothing."""
        with self._errors():
            db = self._connection()
            db.execute("begin immediate")
            try:
                yield db
            except BaseException:
                db.rollback()
                raise
            db.commit()

    def belonging(self) -> AbstractContextManager[None]:
        """Tell what reading rows raises that hold what does not belong there: see :func:`belonging`."""
        return belonging(self.path, *self._words)

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Read rows."""
        with self._errors():
            return self._connection().execute(statement, values).fetchall()

    def close(self) -> None:
        """Close this thread's connection; the next use opens another."""
        owner, db = getattr(self._local, "connection", (0, None))
        if db is not None and owner == os.getpid():
            db.close()
        self._local.connection = (0, None)

    def _connection(self) -> sqlite3.Connection:
        owner, db = getattr(self._local, "connection", (0, None))
        if db is not None and owner != os.getpid():
            _INHERITED.append(db)
            db = None
        if db is None:
            db = connect(self.path, *self._settings)
            db.isolation_level = None  # transactions begin where we say
            db.row_factory = sqlite3.Row
            self._local.connection = (os.getpid(), db)
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        reads_only = db.execute("pragma query_only").fetchone()[0]  # a file of before, as it is
        if self._version(db) == len(self._migrations) or reads_only:
            return
        db.execute("begin immediate")
        with db:
            for script in self._migrations[self._version(db) :]:  # another process may have begun
                for statement in script.split(";"):
                    db.execute(statement)
            db.execute(f"pragma user_version = {len(self._migrations)}")

    def _version(self, db: sqlite3.Connection) -> int:
        version = int(db.execute("pragma user_version").fetchone()[0])
        if version > len(self._migrations):
            raise UserError(
                f"the {self._words[0]} '{self.path}' is of version {version}, this Stategate knows "
                f"{len(self._migrations)}: update it"
            )
        tables = {
            row[0] for row in db.execute("select name from sqlite_master where type = 'table'")
        }
        if tables and not tables & set(_TABLE.findall(self._migrations[0])):
            raise sqlite3.DatabaseError("another program's database")
        return version
