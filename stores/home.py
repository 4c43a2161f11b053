"""Where Stategate keeps things: one folder for what is the user's, one for what can be made again."""

import getpass
import os
import time
import uuid
from pathlib import Path
from urllib.parse import quote

from stategate.stores.errors import user_error_context


def home() -> Path:
    """Return the folder of banks, memories, traces, corpora and checkpoints, made if missing.

    It is ``$STATEGATE_HOME``, else this system's place for the data of programs. Raises ``UserError``
    where it cannot be made.
    """
    from platformdirs import user_data_path

    return _folder(user_data_path("stategate", appauthor=False))


def cache() -> Path:
    """Return the folder of downloads and of all that can be made again, made if missing.

    It is ``$STATEGATE_HOME`` too, else this system's place for caches.
    """
    from platformdirs import user_cache_path

    return _folder(user_cache_path("stategate", appauthor=False))


def this_user() -> str:
    """Return the name of the system's user who runs this."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's number without a name
        return f"user-{os.getuid()}"


def new_thread(prefix: str) -> str:
    """Return the id of a thread that nobody has."""
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:12]}"


def thread_of(user: str, thread: str) -> str:
    """Return the name of a user's thread in the stores that all users share (checkpoints, traces).

    This system's user has plain names; equal names of two users are two threads.
    """
    if user == this_user() and not thread.startswith("user="):
        return thread
    return f"user={quote(user, safe='')}/{thread}"


def _folder(default: Path) -> Path:
    folder = Path(os.environ.get("STATEGATE_HOME") or default).expanduser()
    with user_error_context(
        f"cannot make the folder '{folder}'", "set STATEGATE_HOME to one you may write to"
    ):
        folder.mkdir(parents=True, exist_ok=True)
    return folder
