"""Where Stategate keeps what it downloads and caches."""

import os
from pathlib import Path


def home() -> Path:
    """Return the cache folder, made if missing: ``$STATEGATE_HOME`` or ``~/.cache/stategate``."""
    folder = Path(os.environ.get("STATEGATE_HOME") or Path.home() / ".cache" / "stategate")
    folder = folder.expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
