"""Where Stategate keeps things: one folder for what is the user's, one for what can be made again."""

import atexit
import getpass
import os
import shutil
import tempfile
import time
import uuid
from functools import cache as cached
from pathlib import Path
from urllib.parse import quote

from stategate.stores.errors import UserError, user_error_context, warn_once


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


def own_name_of(thread: str) -> str:
    """Return the name that its user gave a thread of the shared stores: ``user=bo/t`` is ``t``."""
    return thread.partition("/")[2] or thread if thread.startswith("user=") else thread


def _folder(default: Path) -> Path:
    folder = Path(os.environ.get("STATEGATE_HOME") or default).expanduser()
    with user_error_context(
        f"cannot make the folder '{folder}'", "set STATEGATE_HOME to one you may write to"
    ):
        folder.mkdir(parents=True, exist_ok=True)
    return folder if os.access(folder, os.W_OK) else _stand_in(folder)


#: Folders that stand in for read-only ones in this process.
_STAND_INS: set[Path] = set()


@cached
def _stand_in(folder: Path) -> Path:
    """Return an empty folder, for this process alone, that has the assets of a read-only one."""
    warn_once(
        f"'{folder}' cannot be written: nothing in it is read but downloads, and nothing of this run "
        "is kept; set STATEGATE_HOME to a folder that you may write to"
    )
    made = Path(tempfile.mkdtemp(prefix="stategate-"))
    _STAND_INS.add(made)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    if (folder / "assets").is_dir():
        (made / "assets").symlink_to(folder / "assets")
    return made


def is_home_kept() -> bool:
    """Say whether the home is the user's own, no folder that stands in for one."""
    return home() not in _STAND_INS


def require_own_home() -> None:
    """Raise ``UserError`` where another folder stands in for the home: what it lacks is not gone."""
    if not is_home_kept():
        raise UserError("the home cannot be written: set STATEGATE_HOME to the memory's folder")
