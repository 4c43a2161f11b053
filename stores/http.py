"""URLs and HTTP answers: which point at this machine, where one is written down, how much one may hold.

A proxy named in the environment must not see what is meant for this machine. A megabyte on the wire can
be gigabytes in memory, so an answer is unpacked here, one layer of gzip at most, and counted as it
comes out.
"""

import ipaddress
import os
import re
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

from stategate.stores.errors import UserError

_VARIABLE = re.compile(r"\$\{?(STATEGATE_[A-Z_]+)\}?")


_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::\d{0,5})?", re.IGNORECASE)


def named_host(header: str) -> str:
    """Return the name or address that a Host header says, without its port; "" where it is none."""
    match = _HOST.fullmatch(header)
    return (match["six"] or match["name"]).lower().rstrip(".") if match else ""


def on_loopback(url: str) -> bool:
    """Say whether ``url`` points at this machine."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def from_environment(url: str) -> str:
    """Return ``url``, or what the variable holds that it names: ``$STATEGATE_POSTGRES``.

    So a config, and all that is written down of it, names a database without its password. Raises
    ``UserError`` where the variable is not set; only names that begin with STATEGATE_ are read.
    """
    named = _VARIABLE.fullmatch(url.strip())
    if named is None:
        return url
    value = os.environ.get(named[1], "").strip()
    if not value:
        raise UserError(f"the environment variable {named[1]} is not set: set it to a URL")
    return value


def limited_answers(
    max_bytes: int, *, seconds: float | None = None, is_async: bool = False
) -> dict[str, Any]:
    """Return settings of an httpx2 client whose answers unpack to at most ``max_bytes``.

    ``seconds`` limits the whole body. A larger, later or differently packed one raises httpx2's
    errors.
    """
    import httpx2

    class _Unpacked(httpx2.SyncByteStream, httpx2.AsyncByteStream):
        def __init__(self, inner: Any, is_packed: bool) -> None:
            self._inner, self._bytes_left, self._since = inner, max_bytes, time.monotonic()
            self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if is_packed else None

        def _part(self, data: bytes) -> bytes:
            if seconds is not None and time.monotonic() - self._since > seconds:
                raise httpx2.ReadTimeout(f"no whole answer within {seconds:.0f} s")
            try:
                data = (
                    data
                    if self._unpack is None
                    else self._unpack.decompress(data, self._bytes_left + 1)
                )
            except zlib.error as error:
                raise httpx2.DecodingError(f"its gzip is damaged ({error})") from None
            self._bytes_left -= len(data)
            if self._bytes_left < 0:
                raise httpx2.DecodingError(f"an answer of over {max_bytes / 1e6:.0f} MB")
            return data

        def __iter__(self) -> Iterator[bytes]:
            for data in self._inner:
                yield self._part(data)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in self._inner:
                yield self._part(data)

        def close(self) -> None:
            self._inner.close()

        async def aclose(self) -> None:
            await self._inner.aclose()

    def limit(response: httpx2.Response) -> None:
        packed = response.headers.pop("content-encoding", "identity").strip().lower()
        if packed not in ("identity", "gzip", "x-gzip", ""):
            raise httpx2.DecodingError(
                f"an answer packed by {packed[:40]}, which was not asked for"
            )
        response.stream = _Unpacked(response.stream, "gzip" in packed)

    async def alimit(response: httpx2.Response) -> None:
        limit(response)

    hook = alimit if is_async else limit
    return {"headers": {"Accept-Encoding": "gzip"}, "event_hooks": {"response": [hook]}}
