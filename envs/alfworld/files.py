"""Where games are: the sample, an unpacked folder, or one with archives (``.tar.xz``, ``.zip``).

Games are named ``split/task/trial`` after their folders; of one name that in the current format counts.
Archives are read through once; what they hold is kept in the cache as a zip file of the games that can
be played, so that one is read at once.
"""

import json
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

from stategate.stores.assets.downloads import byte_progress
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import atomic_path, parse_json, user_path
from stategate.stores.home import cache

GAME = "game.tw-pddl"
#: The order of the published splits; others come after, by name.
_SPLITS = ("train", "valid_seen", "valid_unseen")
#: The folder of the games in the current format.
_MAIN = "json_2.1.1"
#: Tasks that ALFWorld leaves out: what moves within things, and what is sliced first.
_LEFT_OUT = re.compile(r"movable|Sliced")
_SOLVABLE = re.compile(rb'"solvable":\s*(true|false)')
_END = 4096  # bytes of a file in which it says whether it can be solved
_ARCHIVES = (".tar.xz", ".tar.gz", ".tar", ".zip")
_DAMAGES = (OSError, EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


#: Games by name, split by split, each with what reads its file.
Library = Mapping[str, Callable[[], str]]


def open_library(folder: str | Path) -> Library:
    """Open "sample", or a folder with games or archives of games. Raises ``UserError``."""
    if str(folder) == "sample":
        return _sample()
    path = user_path(folder).resolve()
    if not path.is_dir():
        raise UserError(f"there is no folder '{folder}': the published games are in 'official'")
    unpacked = ((game, game.parent.parts) for game in sorted(path.rglob(GAME)))
    games = [(own, partial(_read, game)) for game, own in unpacked if _is_played(own, _end(game))]
    files = (file for file in sorted(path.iterdir()) if file.is_file())
    for packed in (_packed(file) for file in files if file.name.endswith(_ARCHIVES)):
        members = zipfile.ZipFile(packed).namelist()
        games += [(tuple(m.split("/")), partial(_read, packed, m)) for m in members]
    if not games:
        raise UserError(
            f"'{folder}' holds no {GAME} and no archive of them: the published ones are in 'official'"
        )
    library: dict[str, Callable[[], str]] = {}
    for folders, read in sorted(games, key=lambda game: _MAIN not in game[0]):
        library.setdefault("/".join(folders[-3:]), read)
    return _ordered(library)


def _read(path: Path, member: str = "") -> str:
    """Return a game's file, or that of a zip file's member."""
    with user_error_context(f"cannot read '{path}'", "give an undamaged copy", _DAMAGES):
        if not member:
            return path.read_text(encoding="utf-8")
        with zipfile.ZipFile(path) as packed:
            return packed.read(member).decode("utf-8")


def _ordered(games: Library) -> Library:
    def rank(name: str) -> tuple[int, str]:
        split = name.partition("/")[0]
        return _SPLITS.index(split) if split in _SPLITS else len(_SPLITS), name

    return {name: games[name] for name in sorted(games, key=rank)}


def _is_played(folders: Sequence[str], end: bytes) -> bool:
    """Say whether a game can be played; one that is unsolvable says so at its file's ``end``."""
    solvable = _SOLVABLE.search(end)
    is_solvable = solvable is None or solvable[1] == b"true"
    return is_solvable and not _LEFT_OUT.search("/".join(folders[-3:]))


def _end(path: Path) -> bytes:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _END))
        return stream.read()


# Archives -----------------------------------------------------------------------------------------


def _packed(path: Path) -> Path:
    """Return the zip file of an archive's games, by their folders; a new archive is read through."""
    with user_error_context(f"cannot read '{path}'"):
        state = path.stat()
        packed = cache() / "alfworld" / f"{path.name}-{state.st_size}-{state.st_mtime_ns}.zip"
    if packed.exists():
        return packed
    with (
        atomic_path(packed) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as games,
        byte_progress(state.st_size, f"reading {path.name}") as bar,
        user_error_context(f"cannot read '{path}'", "give an undamaged copy", kinds=_DAMAGES),
    ):
        for member, body in _members(path):
            folder = member.rpartition("/")[0]
            is_new = folder.count("/") >= 2 and folder not in games.NameToInfo
            if is_new and _is_played(folder.split("/"), body[-_END:]):
                games.writestr(folder, body)
                bar.update(games.NameToInfo[folder].compress_size)
    return packed


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the game files in an archive, one at a time."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            for info in packed.infolist():
                if info.filename.endswith("/" + GAME):
                    yield info.filename, packed.read(info)
        return
    with tarfile.open(path, "r|*") as packed_tar:
        for entry in packed_tar:
            stream = packed_tar.extractfile(entry) if entry.name.endswith("/" + GAME) else None
            if stream is not None:
                yield entry.name.removeprefix("./"), stream.read()


# The sample -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _sample() -> Library:
    """Return the invented games that ship."""
    packed = (Path(__file__).parent / "sample" / "games.json.xz").read_bytes()
    content = parse_json(lzma.decompress(packed))
    shared = {"pddl_domain": content["pddl_domain"]}
    return _ordered(
        {name: partial(json.dumps, {**shared, **game}) for name, game in content["games"].items()}
    )
