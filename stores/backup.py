"""All of a home in one file, and back: databases as they are at one moment, folders as they lie.

Databases are copied by SQLite's own backup, so others may write meanwhile. Caches are left out: they
are made again. What lies on the servers that ``STATEGATE_POSTGRES`` and ``STATEGATE_CHROMA`` name comes
along (``stores.shared_backup``).
"""

import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import atomic_path
from stategate.stores.home import DATA, home
from stategate.stores.shared_backup import fetch, put_back, require_room
from stategate.stores.sqlite import is_sqlite

_PASSING = ("-wal", "-shm", "-journal", ".part", ".lock")


def back_up(path: str | Path) -> tuple[int, int]:
    """Write this home's data to the archive ``path``; returns how many files and bytes.

    Raises ``UserError`` where it cannot be written or a database is damaged.
    """
    root = home()
    files = size = 0
    with atomic_path(path) as partial, tarfile.open(partial, "w:gz") as archive:
        for file in _files(root):
            name = file.relative_to(root).as_posix()
            if is_sqlite(file):
                with tempfile.TemporaryDirectory() as folder:
                    copy = Path(folder) / "copy"
                    _copy_database(file, copy)
                    archive.add(copy, name)
            else:
                archive.add(file, name, recursive=False)
            files += 1
            size += file.stat().st_size
        with tempfile.TemporaryDirectory() as folder:
            for name in fetch(Path(folder)):
                archive.add(Path(folder) / name, name)
                files += 1
                size += (Path(folder) / name).stat().st_size
    return files, size


def restore(path: str | Path) -> int:
    """Unpack the archive ``path`` into this home, which must hold no data; returns how many files.

    Raises ``UserError`` for anything but a backup, and where something is there already, here or on the
    servers.
    """
    root = home()
    ready, partial = root / ".restore", root / ".restore.part"
    if ready.is_dir():  # a restore that was killed: all is unpacked, the rest takes its place
        return _put(ready, root)
    there = [name for name in DATA if (root / name).exists()]
    if there:
        raise UserError(
            f"'{root}' holds {', '.join(there[:3])} already: set STATEGATE_HOME to an empty folder"
        )
    try:
        with tarfile.open(Path(path).expanduser(), "r:gz") as archive:
            members = archive.getmembers()
            for member in members:
                if not member.isfile() or member.name.split("/")[0] not in (*DATA, "servers"):
                    raise UserError(f"'{path}' is no backup: it holds '{member.name[:80]}'")
            require_room(member.name for member in members)
            size, free = sum(member.size for member in members), shutil.disk_usage(root).free
            if size > free:
                raise UserError(
                    f"'{path}' unpacks to {size / 1e6:.0f} MB and '{root}' has {free / 1e6:.0f} MB "
                    "free: make room"
                )
            shutil.rmtree(partial, ignore_errors=True)
            archive.extractall(partial, members, filter="data")
        partial.rename(ready)
        return _put(ready, root)
    except (OSError, tarfile.TarError, zlib.error, EOFError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UserError(f"cannot restore '{path}' ({error}): is it a whole backup?") from None


def _put(ready: Path, root: Path) -> int:
    """Bring what is unpacked to its place, on servers and here; returns how many files."""
    served = ready / "servers"
    count = sum(path.is_file() for path in ready.rglob("*"))
    try:
        put_back(ready)
    finally:
        shutil.rmtree(served, ignore_errors=True)
    for part in sorted(ready.iterdir()):
        part.rename(root / part.name)
    ready.rmdir()
    return count


def _files(root: Path) -> Iterator[Path]:
    for name in DATA:
        place = root / name
        for file in (place, *sorted(place.rglob("*"))) if place.is_dir() else (place,):
            is_passing = file.name.endswith(_PASSING)
            if file.is_file() and not file.is_symlink() and not is_passing:
                yield file


def _copy_database(source: Path, target: Path) -> None:
    with (
        user_error_context(f"cannot back up '{source.name}'", "mend or remove it", sqlite3.Error),
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
        found = new.execute("pragma integrity_check").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(str(found)[:80])
