"""WebShop's official data files: fetched from their publisher, or copied from a local folder.

The publisher (princeton-nlp/WebShop, ``setup.sh``) shares them on Google Drive. Every file that
arrives is checked: downloads against the official SHA-256, local copies by reading them as the world
does.
"""

import shutil
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stategate.envs.webshop.catalogue import read_catalogue
from stategate.stores.assets.downloads import fetch_published, sha256
from stategate.stores.errors import UserError, user_error_context

_ADDRESS = "https://drive.usercontent.google.com/download?id={id}&export=download&confirm=t"


@dataclass(frozen=True)
class DataFile:
    """An official file: its id at the publisher's, its SHA-256, its size in bytes."""

    name: str
    drive_id: str
    sha256: str
    size: int


#: The 1000 products of most published results.
FILES = tuple(
    DataFile(**facts)
    for facts in tomllib.loads(Path(__file__).with_name("data.toml").read_text("utf-8"))["files"]
)


def fetch(folder: Path, source: Path | None = None) -> dict[Path, bool]:
    """Put WebShop's three files into ``folder``; return each, and whether it is the publisher's own.

    ``source`` is a local folder that has them; without it they are downloaded. A downloaded file must
    be the official one; a local one may differ. Files change all together or not at all.

    Raises ``UserError`` if a file is missing or the world cannot read it, if its download has the
    wrong SHA-256, and if the publisher cannot be reached.
    """
    folder = folder.expanduser()
    partial = folder.with_name(folder.name + ".partial")  # kept on failure: downloads resume
    with user_error_context(f"cannot write WebShop's data to {folder}", kinds=OSError):
        partial.mkdir(parents=True, exist_ok=True)
        try:
            if source is None:
                for file in FILES:
                    _download(file, folder, partial)
            else:
                _copy(source.expanduser(), partial)
            folder.mkdir(parents=True, exist_ok=True)
            for path in partial.iterdir():
                path.replace(folder / path.name)
        finally:
            if source is not None:
                shutil.rmtree(partial)
            else:
                with suppress(OSError):
                    partial.rmdir()  # where nothing is left to resume
    return {folder / file.name: sha256(folder / file.name) == file.sha256 for file in FILES}


def _copy(source: Path, partial: Path) -> None:
    missing = [file.name for file in FILES if not (source / file.name).is_file()]
    if missing:
        raise UserError(
            f"{source} has no {', '.join(missing)}: give the folder with them as --from FOLDER"
        )
    for file in FILES:
        shutil.copyfile(source / file.name, partial / file.name)
    with user_error_context(f"'{source}' does not hold WebShop's files", kinds=UserError):
        read_catalogue(partial)


def _download(file: DataFile, folder: Path, partial: Path) -> None:
    """Fetch ``file`` unless the official one is in ``folder``."""
    if (folder / file.name).is_file() and sha256(folder / file.name) == file.sha256:
        return
    target = partial / file.name
    fetch_published(_ADDRESS.format(id=file.drive_id), target, file.size, "webshop")
    checksum = sha256(target)
    if checksum != file.sha256:
        target.unlink()
        raise UserError(
            f"WebShop's {file.name} arrived with SHA-256 {checksum}, expected {file.sha256}; removed "
            "it: try again later, or use `stategate data webshop --from FOLDER`"
        )
