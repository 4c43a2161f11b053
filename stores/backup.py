"""All of a home in one file, and back: databases as they are at one moment, folders as they lie.

Databases are copied by SQLite's own backup, so others may write meanwhile. Caches are left out: they
are made again. What lies on the servers that ``STATEGATE_POSTGRES`` and ``STATEGATE_CHROMA`` name comes
along (``stores.shared_backup``).
"""

import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from stores.errors import UserError
from stores.files import replacing
from stores.home import DATA, home
from stores.shared_backup import fetch, put_back, require_room

_MAGIC = b"SQLite format 3\0"
_PASSING = ("-wal", "-shm", "-journal", ".part", ".lock")


def back_up(path: str | Path) -> tuple[int, int]:
    """Write this home's data to the archive ``path``; returns how many files and bytes.

    Raises ``UserError`` where it cannot be written or a database is damaged.
    """
    root = home()
    files = size = 0
    with replacing(path) as partial, tarfile.open(partial, "w:gz") as archive:
        for file in _files(root):
            name = file.relative_to(root).as_posix()
            if _is_database(file):
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
    served = root / "servers"
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
            archive.extractall(root, members, filter="data")
    except (OSError, tarfile.TarError, EOFError) as error:
        raise UserError(f"cannot restore '{path}' ({error}): is it a whole backup?") from None
    try:
        put_back(root)
    finally:
        shutil.rmtree(served, ignore_errors=True)
    return len(members)


def _files(root: Path) -> Iterator[Path]:
    for name in DATA:
        place = root / name
        for file in (place, *sorted(place.rglob("*"))) if place.is_dir() else (place,):
            is_passing = file.name.endswith(_PASSING)
            if file.is_file() and not file.is_symlink() and not is_passing:
                yield file


def _is_database(file: Path) -> bool:
    with file.open("rb") as start:
        return start.read(16) == _MAGIC


def _copy_database(source: Path, target: Path) -> None:
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
            found = new.execute("pragma integrity_check").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(str(found)[:80])
    except sqlite3.Error as error:
        raise UserError(f"cannot back up '{source.name}' ({error}): mend or remove it") from None
