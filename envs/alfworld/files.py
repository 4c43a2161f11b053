"""Where games are: the sample, an unpacked folder, or one with archives (``.tar.xz``, ``.zip``).

Games are named ``split/task/trial`` after their folders; of one name that in the current format counts.
Archives are unpacked once, into the cache.
"""

import json
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path

from filelock import FileLock

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import atomic_path, parse_json, user_path
from stategate.stores.home import cache
from stategate.stores.progress import Progress

GAME = "game.tw-pddl"
#: The folder of the games in the current format.
_MAIN = "json_2.1.1"
#: Tasks that ALFWorld leaves out: what moves within things, and what is sliced first.
_LEFT_OUT = re.compile(r"movable|Sliced")
_SOLVABLE = re.compile(rb'"solvable":\s*(true|false)')
_END = 4096  # bytes of a file in which it says whether it can be solved
_ARCHIVES = (".tar.xz", ".tar.gz", ".tar", ".zip")
_DAMAGES = (OSError, EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)

#: Games in the order of their names, each with what reads its file.
Library = Mapping[str, Callable[[], str]]


def open_library(folder: str | Path) -> Library:
    """Open "sample", or a folder with games or archives of games. Raises ``UserError``."""
    if str(folder) == "sample":
        return _sample()
    path = user_path(folder).resolve()
    if not path.is_dir():
        raise UserError(f"there is no folder '{folder}': the published games are in 'official'")
    files = (file for file in sorted(path.iterdir()) if file.is_file())
    archives = (file for file in files if file.name.endswith(_ARCHIVES))
    found = (game for own in (path, *map(_unpacked, archives)) for game in sorted(own.rglob(GAME)))
    games = [game for game in found if _is_played(game)]
    if not games:
        raise UserError(
            f"'{folder}' holds no {GAME} and no archive of them: the published ones are in 'official'"
        )
    library: dict[str, Callable[[], str]] = {}
    for game in sorted(games, key=lambda game: _MAIN not in game.parts):
        library.setdefault("/".join(game.parent.parts[-3:]), partial(_read, game))
    return dict(sorted(library.items()))


def _read(path: Path) -> str:
    with user_error_context(f"cannot read '{path}'", "give an undamaged copy", _DAMAGES):
        return path.read_text(encoding="utf-8")


def _is_played(game: Path) -> bool:
    """Say whether a game can be played; one that is unsolvable says so at its file's end."""
    with game.open("rb") as stream:
        stream.seek(max(0, game.stat().st_size - _END))
        solvable = _SOLVABLE.search(stream.read())
    is_solvable = solvable is None or solvable[1] == b"true"
    return is_solvable and not _LEFT_OUT.search("/".join(game.parent.parts[-3:]))


def _unpacked(path: Path) -> Path:
    """Return the folder of an archive's games; a new archive is unpacked."""
    with user_error_context(f"cannot read '{path}'"):
        state = path.stat()
        folder = cache() / "alfworld" / f"{path.name}-{state.st_size}-{state.st_mtime_ns}"
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):
                if not folder.exists():
                    _unpack(path, folder)
    return folder


def _unpack(path: Path, folder: Path) -> None:
    with (
        atomic_path(folder) as partial,
        user_error_context(f"cannot read '{path}'", "give an undamaged copy", kinds=_DAMAGES),
    ):
        partial.mkdir()
        what = f"unpacking {path.name}"
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as games:
                names = [name for name in games.namelist() if name.endswith("/" + GAME)]
                games.extractall(partial, Progress(names, what, unit="file"))  # noqa: S202 - stays inside
        else:
            with tarfile.open(path, "r|*") as packed:
                files = Progress(packed, what, unit="file")
                members = (file for file in files if file.name.endswith("/" + GAME))
                packed.extractall(partial, members, filter="data")


# The sample -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _sample() -> Library:
    """Return the invented games that ship."""
    packed = (Path(__file__).parent / "sample" / "games.json.xz").read_bytes()
    content = parse_json(lzma.decompress(packed))
    shared = {"pddl_domain": content["pddl_domain"]}
    games = {name: {**shared, **game} for name, game in content["games"].items()}
    return {name: partial(json.dumps, game) for name, game in sorted(games.items())}
