"""Fetching one address into one file: a short wait for dead hosts, resuming, a progress bar."""

import hashlib
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tqdm import tqdm

#: Seconds after which a host that has not answered counts as unreachable.
PATIENCE = 5.0
#: Seconds without a byte after which a running download is given up.
_STALL = 60.0
_BLOCK = 1 << 20
#: Seconds for which a host that did not answer is not asked again.
_SILENCE = 60.0
_silent_hosts: dict[str, tuple[float, str]] = {}


#: What is told of each block of bytes, such as a bar's ``update``.
Advance = Callable[[int], object]


def _uncounted(count: int) -> None:
    """Tell nobody."""


class SourceError(Exception):
    """Why one source could not serve a file; callers try the next one."""


@contextmanager
def progress(total: int, what: str, *, leave: bool = True) -> "Iterator[tqdm[Any]]":
    """Show a bar of ``total`` bytes on standard error; it stays if ``leave`` and all went well."""
    from tqdm import tqdm

    pace = 0.2 if sys.stderr.isatty() else 2.0
    look: Any = {"unit": "B", "unit_scale": True, "mininterval": pace, "file": sys.stderr}
    with tqdm(total=total, desc=what, leave=leave, **look) as bar:
        try:
            yield bar
        except SourceError:
            bar.leave = False
            raise


def sha256(path: Path, advance: Advance = _uncounted) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def download(
    url: str, target: Path, advance: Advance = _uncounted, *, patience: float = PATIENCE
) -> None:
    """Fetch ``url`` into ``target``, going on from the bytes that are already there.

    The first answer may take ``patience`` seconds.
    Raises :class:`SourceError` if the host is unreachable, refuses, or stops sending; what has come
    so far stays in ``target`` for the next attempt.
    """
    have = target.stat().st_size if target.exists() else 0
    headers = {"User-Agent": "stategate"} | ({"Range": f"bytes={have}-"} if have else {})
    response = _open(urllib.request.Request(url, headers=headers), patience)  # noqa: S310
    if response is None:
        advance(have)
        return
    with response:
        resumed = have > 0 and response.status == 206
        advance(have if resumed else 0)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab" if resumed else "wb") as sink:
            _pour(response, sink, advance)


def _pour(response: Any, sink: IO[bytes], advance: Advance) -> None:
    expected = response.headers.get("Content-Length")
    received = 0
    while True:
        try:
            block = response.read(_BLOCK)
        except (OSError, HTTPException) as error:
            raise SourceError(f"the download stopped ({_reason(error)})") from error
        if not block:
            break
        sink.write(block)
        received += len(block)
        advance(len(block))
    sink.flush()
    os.fsync(sink.fileno())
    if expected is not None and received < int(expected):
        raise SourceError(f"the download stopped after {received} of {expected} bytes")


def _open(request: urllib.request.Request, patience: float) -> Any:
    """Open a request, waiting ``patience`` seconds for the first answer, name look-up included.

    Returns None where the server says that there is nothing after the bytes asked for.
    """
    host = urlsplit(request.full_url).netloc
    since, why = _silent_hosts.get(host, (-_SILENCE, ""))
    if time.monotonic() - since < _SILENCE:
        raise SourceError(why)
    answer: dict[str, Any] = {}

    def ask() -> None:
        try:
            answer["response"] = urllib.request.urlopen(request, timeout=_STALL)  # noqa: S310
        except (OSError, HTTPException, ValueError) as error:
            answer["error"] = error

    # A thread, because no socket timeout bounds the system's name look-up.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(patience)
    error = answer.get("error")
    if isinstance(error, urllib.error.HTTPError):
        if error.code == 416:
            return None
        raise SourceError(f"HTTP {error.code} {error.reason}")
    if "response" not in answer:
        why = f"unreachable ({_reason(error)})" if error else f"no answer within {patience:g} s"
        _silent_hosts[host] = (time.monotonic(), why)
        raise SourceError(why)
    return answer["response"]


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    text = str(getattr(reason, "strerror", None) or reason)
    return " ".join(text.split())[:120]
