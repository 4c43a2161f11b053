"""What each browser tab was doing, so that a reload, or the server's restart, goes on with it.

The episode itself is in the graph's checkpoints; kept here is what leads there: the thread, the agent,
and which builder each step was read with. One small JSON file a tab, named by the hash of its secret.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stores.files import write_json

#: Files of tabs that nobody came back to are removed after so many days.
KEPT_DAYS = 30


class TabSessions:
    """A folder of tabs. Unreadable or foreign files count as unknown tabs."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, tab: str) -> dict[str, Any] | None:
        """Return what was kept for ``tab``, None if nothing was."""
        try:
            kept = json.loads(self._path(tab).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return kept if isinstance(kept, dict) else None

    def write(self, tab: str, values: Mapping[str, Any]) -> None:
        """Keep ``values`` for ``tab``, replacing what was kept; whole or not at all."""
        write_json(self._path(tab), dict(values))

    def prune(self, days: float = KEPT_DAYS) -> int:
        """Remove tabs not written for ``days``; returns how many."""
        oldest = time.time() - days * 86_400
        gone = 0
        for path in self.folder.glob("*.json"):
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
                    gone += 1
            except OSError:
                continue
        return gone

    def _path(self, tab: str) -> Path:
        return self.folder / f"{hashlib.sha256(tab.encode()).hexdigest()[:40]}.json"
