"""SQLite's write-ahead log, switched on so that several processes may make the same new file."""

import sqlite3
import time


def write_ahead(db: sqlite3.Connection, patience: float = 30.0) -> None:
    """Make ``db``'s journal a write-ahead log, waiting at most ``patience`` seconds for the others.

    Of several who switch a new database at once SQLite refuses some without its busy timeout, so
    the wait is ours. Raises ``sqlite3.OperationalError`` when the patience is spent.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            db.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
