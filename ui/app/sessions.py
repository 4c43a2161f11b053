"""What each browser tab was doing, so that a reload, or the server's restart, goes on with it.

The episode itself is in the graph's checkpoints; kept here is what leads there: the thread, the agent,
and which builder each step was read with. One JSON file a tab, named by the hash of the tab's secret.
"""

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from stategate.stores.errors import UserError
from stategate.stores.files import parse_json, write_json

#: Tabs that nobody came back to are removed after so many days.
KEPT_DAYS = 30
#: Seconds that a move waits for another one of the same tab.
PATIENCE = 2.0


class TabSessions:
    """What is kept of tabs, in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def read(self, tab: str) -> dict[str, Any]:
        """Return what was kept for ``tab``, {} if nothing was, or nothing that can be read."""
        try:
            values = parse_json(self._file(tab).read_bytes())
        except (OSError, ValueError):
            return {}
        return values if isinstance(values, dict) else {}

    def write(self, tab: str, values: Mapping[str, Any]) -> None:
        """Keep ``values`` for ``tab``, replacing what was kept; whole or not at all."""
        write_json(self._file(tab), dict(values))

    def prune(self, days: float = KEPT_DAYS) -> int:
        """Remove tabs not written for ``days``; returns how many."""
        oldest = time.time() - days * 86_400
        stale = [file for file in self._folder.glob("*.json") if file.stat().st_mtime < oldest]
        for file in stale:
            file.unlink(missing_ok=True)
        return len(stale)

    def _file(self, tab: str) -> Path:
        return self._folder / f"{hashlib.sha256(tab.encode()).hexdigest()[:40]}.json"


class Busy(UserError):
    """Another move of the same tab is being made."""


class Turns:
    """Moves of one tab take turns: a second one at once is refused, and one that hangs can be left."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    @contextmanager
    def taking_turn(self, busy: str) -> Iterator[Callable[[], bool]]:
        """Hold the turn; yields a function that says whether it was not left.

        Raises ``Busy`` (saying ``busy``) where another move has it for longer than :data:`PATIENCE`.
        """
        turn = self._turn
        if not turn.acquire(timeout=PATIENCE):
            raise Busy(busy)
        try:
            yield lambda: self._turn is turn
        finally:
            turn.release()

    def leave_turn(self) -> None:
        """Wait no longer for the move that is being made; it may still end by itself."""
        self._turn = threading.Lock()


Work = TypeVar("Work")


class OpenTabs(Generic[Work]):
    """What every tab works with: open, or made (perhaps found again) by ``load``."""

    def __init__(self, load: Callable[[str], Work]) -> None:
        self._load = load
        self._open: dict[str, Work] = {}

    def of(self, tab: str | None) -> Work:
        """Return what ``tab`` works with. Raises ``UserError`` for a page without a name."""
        if not tab:
            raise UserError("this page has lost its name: reload it")
        if tab not in self._open:
            self._open.setdefault(tab, self._load(tab))
        return self._open[tab]


def new_thread(prefix: str) -> str:
    """Return the id of a thread that nobody has."""
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:12]}"
