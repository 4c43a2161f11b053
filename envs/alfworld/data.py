"""ALFWorld's published games: fetched from the project's release, or copied from a local folder.

What arrives is opened as the world opens it, and one game of each split is read, before it takes its
place. ``manifest.json`` beside the files records their names, sizes and SHA-256.
"""

import shutil
import tomllib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stategate.envs.alfworld.files import GAME, is_archive, open_library
from stategate.envs.alfworld.game import Game
from stategate.stores.assets.downloads import fetch_published, sha256
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import atomic_path, write_json

MANIFEST = "manifest.json"
_FILE = tomllib.loads(Path(__file__).with_name("data.toml").read_text("utf-8"))


@dataclass(frozen=True)
class FileRecord:
    """An archive that was kept, or a folder of games (then without a hash)."""

    name: str
    bytes: int
    sha256: str


def fetch(folder: Path, source: Path | None = None) -> tuple[list[FileRecord], dict[str, int]]:
    """Put ALFWorld's games into ``folder``; return what is there now, and how many games by split.

    ``source`` is a local folder that has them (unpacked, or in archives); without it the publisher's
    archive is downloaded. All files change together or not at all. Raises ``UserError``.
    """
    folder = folder.expanduser()
    if source is not None and not source.expanduser().is_dir():
        raise UserError(f"there is no folder '{source}': name one that has the games")
    waiting = folder.with_name(f"{folder.name}.partial")  # kept on failure: a download resumes
    if source is None:
        _download(waiting)
    with atomic_path(folder) as staging:
        staging.mkdir()
        if source is None:
            shutil.copy2(waiting / _FILE["name"], staging)
        else:
            _copy(source.expanduser(), staging)
        games = _checked(staging)
        records = [
            FileRecord(path.name, path.stat().st_size, sha256(path))
            for path in sorted(staging.iterdir())
            if path.is_file()
        ]
        write_json(staging / MANIFEST, {"files": [asdict(r) for r in records], "games": games}, 2)
    if source is None:
        shutil.rmtree(waiting)
    return records, games


def _download(waiting: Path) -> None:
    with user_error_context(f"cannot write to {waiting}", kinds=OSError):
        waiting.mkdir(parents=True, exist_ok=True)
        try:
            fetch_published(_FILE["url"], waiting / _FILE["name"], _FILE["size"], "alfworld")
        except UserError:
            with suppress(OSError):
                waiting.rmdir()  # where nothing has come
            raise


def _copy(source: Path, staging: Path) -> None:
    """Copy archives, and games that are unpacked, and nothing else."""
    paths = [path for path in source.iterdir() if is_archive(path)] + list(source.rglob(GAME))
    if not paths:
        raise UserError(f"'{source}' holds no {GAME} and no archive of them: name another folder")
    for path in paths:
        target = staging / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _checked(folder: Path) -> dict[str, int]:
    """Return the number of games by split, having read one of each. Raises ``UserError``."""
    library = open_library(folder)
    counts: dict[str, int] = {}
    names = library.names()
    for name in [n for n in names if n.count("/") == 2] or names:
        split = name.split("/")[-3]
        if split not in counts:
            try:
                Game.read(library.text(name))
            except UserError as error:
                raise UserError(f"game '{name}': {error}") from None
        counts[split] = counts.get(split, 0) + 1
    return counts
