"""Where Stategate keeps things: one folder for what is the user's, one for what can be made again."""

import getpass
import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.sqlite import is_in_use

#: The user's own, by name in its folder.
DATA = (
    "banks",
    "captions.json",
    "checkpoints",
    "checkpoints.sqlite",
    "corpora",
    "data",
    "long_term.sqlite",
    "traces.sqlite",
    "ui",
)
#: What can be fetched or made again.
CACHE = (
    "assets",
    "bank_indexes",
    "converted",
    "document_states",
    "embeddings.sqlite",
    "nouns.sqlite",
    "pages",
    "tiktoken",
)


def home() -> Path:
    """Return the folder of banks, memories, traces, corpora and checkpoints, made if missing.

    Raises ``UserError`` where it cannot be. It is ``$STATEGATE_HOME``, else this system's
    place for the data of programs.
    """
    from platformdirs import user_data_path

    return _folder(user_data_path("stategate", appauthor=False), DATA)


def cache() -> Path:
    """Return the folder of downloads and of all that can be made again, made if missing.

    It is ``$STATEGATE_HOME`` too, else this system's place for caches.
    """
    from platformdirs import user_cache_path

    return _folder(user_cache_path("stategate", appauthor=False), CACHE)


def data_folder(data: str, world: str) -> str:
    """Return where a world's ``data`` lies: "sample" itself, the "official" files, or a folder."""
    if data == "official":
        return str(home() / "data" / world)
    return data if data == "sample" else str(Path(os.path.expandvars(data)).expanduser())


def this_user() -> str:
    """Return the name of the system's user who runs this."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's number without a name
        return f"user-{os.getuid()}"


def _folder(usual: Path, names: tuple[str, ...]) -> Path:
    if named := os.environ.get("STATEGATE_HOME"):
        folder = Path(named).expanduser()
    else:
        folder = _moved(Path.home() / ".cache" / "stategate", usual, names)
    with user_error_context(
        f"cannot make the folder '{folder}'", "set STATEGATE_HOME to one you may write to"
    ):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@lru_cache(maxsize=4)
def _moved(old: Path, new: Path, names: tuple[str, ...]) -> Path:
    """Move ``names`` from ``old``, where everything stood once, to ``new``; return what is to be used.

    That is ``old`` as long as another process has a database open there. Nothing is replaced: what
    stands in both places stays in both.
    """
    from filelock import FileLock

    def left() -> list[Path]:
        here = [old / name for name in names]
        return [path for path in here if path.exists() and not (new / path.name).exists()]

    if old == new or not left():
        return new
    try:
        new.mkdir(parents=True, exist_ok=True)
        with FileLock(new / ".move.lock"):
            paths = left()  # another process may have moved them meanwhile
            files = [file for path in paths for file in (path, *path.rglob("*.sqlite*"))]
            if any(is_in_use(f) for f in files if f.suffix in (".sqlite", ".sqlite3")):
                _say(f"'{old}' is in use: its files move to '{new}' when it is not")
                return old
            for path in paths:
                _move(path, new / path.name)
        if paths:
            _say(f"moved {', '.join(p.name for p in paths)} from '{old}' to '{new}'")
    except OSError as error:
        problem = f"cannot move '{old}' to '{new}' ({error.strerror or error})"
        if any((new / name).exists() for name in names):  # half of it here: neither place is whole
            raise UserError(f"{problem}: make room, or set STATEGATE_HOME") from None
        _say(f"{problem}: its files stay where they are")
        return old
    return new


def _move(source: Path, target: Path) -> None:
    """Rename, or copy to another disk; what a killed copy left is made anew, the source goes last."""
    try:
        source.rename(target)
    except OSError:
        part = target.with_name(f".{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        if source.is_dir():
            shutil.copytree(source, part, symlinks=True)
        else:
            shutil.copy2(source, part)
        part.rename(target)
        shutil.rmtree(source) if source.is_dir() else source.unlink()


def _say(line: str) -> None:
    sys.stderr.write(f"stategate: {line}\n")
