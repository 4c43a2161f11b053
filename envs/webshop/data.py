"""WebShop's official data files: fetched from their publisher, or copied from a local folder.

The publisher (princeton-nlp/WebShop, ``setup.sh``) shares them on Google Drive. Every file that
arrives is checked: downloads against the official SHA-256, local copies by reading them as the world
does. ``manifest.json`` beside them records what was kept.
"""

import shutil
import tomllib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stategate.envs.webshop.catalogue import read_catalogue
from stategate.stores.assets.downloads import fetch_published, sha256
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json, write_json

MANIFEST = "manifest.json"
_ADDRESS = "https://drive.usercontent.google.com/download?id={id}&export=download&confirm=t"


@dataclass(frozen=True)
class DataFile:
    """An official file: its id at the publisher's, its SHA-256, its size in bytes."""

    name: str
    drive_id: str
    sha256: str
    size: int


@dataclass(frozen=True)
class FileRecord:
    """A file that was kept. ``official`` says whether it is byte for byte the publisher's."""

    name: str
    bytes: int
    sha256: str
    official: bool


_FILES = tomllib.loads(Path(__file__).with_name("data.toml").read_text("utf-8"))
#: The 1000 products of most published results.
SMALL = tuple(DataFile(**facts) for facts in (*_FILES["small"], *_FILES["both"]))
#: All 1.18 million products.
FULL = tuple(DataFile(**facts) for facts in (*_FILES["full"], *_FILES["both"]))


def fetch(folder: Path, source: Path | None = None, *, full: bool = False) -> list[FileRecord]:
    """Put WebShop's three files into ``folder`` and return what is there now.

    ``source`` is a local folder that has them; without it they are downloaded. ``full`` takes the
    1.18 million products (5.7 GB) instead of the 1000. A downloaded file must be the official one; a
    local one may differ, and then its record says so. Files change all together or not at all.

    Raises ``UserError`` if a file is missing or the world cannot read it, if its download has the
    wrong SHA-256, and if the publisher cannot be reached.
    """
    files = FULL if full else SMALL
    folder = folder.expanduser()
    partial = folder.with_name(folder.name + ".partial")  # kept on failure: downloads resume
    if source is not None:
        missing = [file.name for file in files if not (source.expanduser() / file.name).is_file()]
        if missing:
            raise UserError(
                f"{source} has no {', '.join(missing)}: give the folder with them as --from FOLDER"
            )
    with user_error_context(f"cannot write WebShop's data to {folder}", kinds=OSError):
        partial.mkdir(parents=True, exist_ok=True)
        try:
            records = [_brought(file, folder, partial, source) for file in files]
            if not all(record.official for record in records):
                with user_error_context(
                    f"'{source}' does not hold WebShop's files", kinds=UserError
                ):
                    read_catalogue(partial)
            _install(folder, partial, records, "a local folder" if source else "Google Drive")
        finally:
            if source is not None:
                shutil.rmtree(partial)
            else:
                with suppress(OSError):
                    partial.rmdir()  # where nothing is left to resume
    return records


def read_manifest(folder: Path) -> list[FileRecord]:
    """Return the records of an earlier :func:`fetch`, or an empty list."""
    try:
        rows = parse_json((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return [FileRecord(**row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _brought(file: DataFile, folder: Path, partial: Path, source: Path | None) -> FileRecord:
    """Put ``file`` into ``partial``, unless the official one is in ``folder``, and describe it."""
    target = partial / file.name
    if source is None:
        if not (folder / file.name).is_file() or sha256(folder / file.name) != file.sha256:
            _download(file, target)
        return FileRecord(file.name, file.size, file.sha256, official=True)
    shutil.copyfile(source.expanduser() / file.name, target)
    target.chmod(0o644)  # the copy is ours, also where the original is read-only
    found = sha256(target)
    return FileRecord(file.name, target.stat().st_size, found, found == file.sha256)


def _download(file: DataFile, target: Path) -> None:
    fetch_published(_ADDRESS.format(id=file.drive_id), target, file.size, "webshop")
    found = sha256(target)
    if found != file.sha256:
        target.unlink()
        raise UserError(
            f"WebShop's {file.name} arrived with SHA-256 {found}, expected {file.sha256}; removed "
            "it: try again later, or use `stategate data webshop --from FOLDER`"
        )


def _install(folder: Path, partial: Path, records: list[FileRecord], origin: str) -> None:
    """Move checked files into place; the manifest comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {record.name: record for record in (*read_manifest(folder), *records)}
    for path in partial.iterdir():
        path.replace(folder / path.name)
    content = {"origin": origin, "files": [asdict(record) for record in known.values()]}
    write_json(folder / MANIFEST, content, indent=2)
