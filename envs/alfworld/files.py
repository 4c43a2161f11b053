"""Where games are: the sample, an unpacked folder, or one with archives (``.tar.xz``, ``.zip``).

Games are named ``split/task/trial`` after their folders. Archives are read through once; what they
hold is kept game by game, compressed, in the cache, so that nothing large is ever unpacked again.
"""

import json
import lzma
import re
import shutil
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Protocol

import sqlalchemy as sa

from stategate.envs.alfworld.game import Game
from stategate.stores.assets.downloads import fetch_published, progress, sha256
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import atomic_path, parse_json, write_json
from stategate.stores.sql import Blob, Database, Schema, Text, create_tables

GAME = "game.tw-pddl"
#: The order of the published splits; others come after, by name.
SPLITS = ("train", "valid_seen", "valid_unseen")
#: The folder of the games in the current format.
_MAIN = "json_2.1.1"
#: Tasks that ALFWorld leaves out: what moves within things, and what is sliced first.
_LEFT_OUT = re.compile(r"movable|Sliced")
_SOLVABLE = re.compile(rb'"solvable":\s*(true|false)')
_ARCHIVES = (".tar.xz", ".tar.gz", ".tar", ".zip")
_archives = sa.Table(
    "archives",
    sa.MetaData(),
    sa.Column("sha256", Text, primary_key=True),
    sa.Column("dictionary", Blob, nullable=False),
)
_games = sa.Table(
    "games",
    sa.MetaData(),
    sa.Column("sha256", Text, primary_key=True),
    sa.Column("root", Text, primary_key=True),
    sa.Column("name", Text, primary_key=True),
    sa.Column("body", Blob, nullable=False),
    sqlite_with_rowid=False,
)
_CACHE = Schema("cache of games", (create_tables(_archives, _games),), fix="remove it")
#: Bytes of a game; the published ones have a million at most.
_MOST = 16_000_000
_DAMAGES = (OSError, EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
_DICTIONARY = 32768  # bytes of the first game against which the others are compressed


def is_archive(path: Path) -> bool:
    """Say whether a path is an archive by its name."""
    return path.name.endswith(_ARCHIVES) and path.is_file()


class Library(Protocol):
    """Names of games, and the file of each."""

    def names(self) -> Sequence[str]:
        """Return the names, split by split."""
        ...

    def text(self, name: str) -> str:
        """Return a game's file. Raises ``UserError`` for an unknown or unreadable one."""
        ...


def open_library(folder: str | Path) -> Library:
    """Open "sample", or a folder with games or archives of games. Raises ``UserError``."""
    if str(folder) == "sample":
        return Sample()
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise UserError(
            f"there is no folder '{folder}': fetch games with `stategate data alfworld`"
        )
    library = _Folder(path)
    if not library.names():
        raise UserError(
            f"'{folder}' holds no {GAME} and no archive of them: fetch games with "
            "`stategate data alfworld`"
        )
    return library


class Sample:
    """The invented games that ship with the package (see ``envs.alfworld.sample``)."""

    def names(self) -> Sequence[str]:
        """Return the names, split by split."""
        return tuple(_sample())

    def text(self, name: str) -> str:
        """Return a game's file."""
        if name not in _sample():
            raise UserError(f"no game '{name}' in the sample: see AlfWorld.load('sample').games")
        return _sample()[name]


class _Folder:
    """Games in folders, and in archives beside them; what is unpacked comes before what is not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        found: dict[tuple[str, str], Path | str] = {}
        for path in sorted(folder.rglob(GAME)):
            parts = path.relative_to(folder).parent.parts
            if len(parts) < 3:  # the folder is a split, or a task of one
                parts = (*path.parent.parts[-3:],)
            if not _LEFT_OUT.search("/".join(parts)) and _is_solvable(_tail(path)):
                found.setdefault(("/".join(parts[:-3]), "/".join(parts[-3:])), path)
        for path in sorted(folder.iterdir()):
            if is_archive(path):
                for root, name in _indexed(path):
                    found.setdefault((root, name), str(path))
        self._where = {_name(key, found): (key, place) for key, place in found.items()}

    def names(self) -> Sequence[str]:
        """Return the names, split by split."""
        return sorted(self._where, key=_order)

    def text(self, name: str) -> str:
        """Return a game's file."""
        if name not in self._where:
            raise UserError(
                f"no game '{name}' in '{self._folder}': games are named split/task/trial"
            )
        (root, short), place = self._where[name]
        if isinstance(place, str):
            return _from_archive(place, root, short)
        with user_error_context(f"cannot read '{place}'", "give an undamaged copy"):
            return place.read_text(encoding="utf-8")


def _name(key: tuple[str, str], found: Mapping[tuple[str, str], object]) -> str:
    """Return ``split/task/trial``; below its folder where the current format has that game too."""
    root, name = key
    above = sorted(other for other, same in found if same == name)
    first = _MAIN if _MAIN in above else above[0]
    return name if root == first else f"{root}/{name}"


def _order(name: str) -> tuple[int, int, str]:
    split = name.split("/")[-3]
    known = SPLITS.index(split) if split in SPLITS else len(SPLITS)
    return name.count("/"), known, name


def _is_solvable(tail: bytes) -> bool:
    found = _SOLVABLE.search(tail)
    return found is None or found[1] == b"true"


def _tail(path: Path) -> bytes:
    """Return the file's end: games that say so are unsolvable say it there."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 4096))
        return stream.read()


# Archives -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _cache(path: Path) -> Database:
    return Database(path, _CACHE)


def _store() -> Database:
    from stategate.stores.home import cache

    return _cache(cache() / "alfworld-games.sqlite")


def _indexed(path: Path) -> list[tuple[str, str]]:
    """Return (folder above, name) of an archive's games, which is read through if it is new."""
    store, key = _store(), _hash(path)
    if not store.rows(sa.select(_archives.c.sha256).where(_archives.c.sha256 == key)):
        _read_through(store, path, key)
    rows = store.rows(sa.select(_games.c.root, _games.c.name).where(_games.c.sha256 == key))
    return [(row.root, row.name) for row in rows]


def _hash(path: Path) -> str:
    with user_error_context(f"cannot read '{path}'"):
        return _hash_of(path, path.stat().st_size, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _hash_of(path: Path, size: int, changed: int) -> str:
    return sha256(path)


def _read_through(store: Database, path: Path, key: str) -> None:
    dictionary = b""
    with store.write() as db, progress(path.stat().st_size, f"reading {path.name}") as bar:
        with user_error_context(f"cannot read '{path}'", "give an undamaged copy", kinds=_DAMAGES):
            for member, body in _members(path):
                parts = member.split("/")[:-1]
                if len(parts) < 3 or _LEFT_OUT.search(member) or not _is_solvable(body[-4096:]):
                    continue
                dictionary = dictionary or body[:_DICTIONARY]
                packer = zlib.compressobj(6, zdict=dictionary)
                packed = packer.compress(body) + packer.flush()
                bar.update(len(packed))
                root, name = "/".join(parts[:-3]), "/".join(parts[-3:])
                game = {"sha256": key, "root": root, "name": name, "body": packed}
                db.execute(store.insert(_games).on_conflict_do_nothing(), game)
        row = {"sha256": key, "dictionary": dictionary}
        db.execute(store.insert(_archives).on_conflict_do_nothing(), row)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the game files in an archive, one at a time."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            for info in packed.infolist():
                if info.filename.endswith("/" + GAME):
                    with packed.open(info) as game:
                        yield info.filename, _bounded(game)
        return
    with tarfile.open(path, "r|*") as packed_tar:
        for entry in packed_tar:
            stream = packed_tar.extractfile(entry) if entry.name.endswith("/" + GAME) else None
            if stream is not None:
                yield entry.name.removeprefix("./"), _bounded(stream)


def _bounded(stream: IO[bytes]) -> bytes:
    """Read one game; what a small archive unpacks to has no limit of its own. Raises ``OSError``."""
    content = stream.read(_MOST + 1)
    if len(content) > _MOST:
        raise OSError(f"a game of more than {_MOST / 1e6:.0f} MB")
    return content


def _from_archive(path: str, root: str, name: str) -> str:
    own = _games.c.sha256 == _hash(Path(path)), _games.c.root == root, _games.c.name == name
    joined = _games.join(_archives, _archives.c.sha256 == _games.c.sha256)
    query = sa.select(_games.c.body, _archives.c.dictionary).select_from(joined).where(*own)
    rows = _store().rows(query)
    if not rows:
        raise UserError(f"no game '{name}' in '{path}': was the archive replaced? load it again")
    unpack = zlib.decompressobj(zdict=rows[0].dictionary)
    return unpack.decompress(rows[0].body).decode("utf-8")


# The sample -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _sample() -> dict[str, str]:
    packed = files("stategate.envs.alfworld.sample").joinpath("games.json.xz").read_bytes()
    content = parse_json(lzma.decompress(packed))
    shared = {"pddl_domain": content["pddl_domain"]}
    return {
        name: json.dumps({**shared, **game})
        for name, game in sorted(content["games"].items(), key=lambda item: _order(item[0]))
    }


# Fetching ------------------------------------------------------------------------------------------

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
