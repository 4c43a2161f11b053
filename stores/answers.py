"""Bodies of HTTP answers that unpack to no more bytes than they may.

A megabyte on the wire can be gigabytes in memory, and more where it was packed several times: so an
answer is unpacked here, one layer of gzip at most, and counted as it comes out.
"""

import time
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any


def limited_answers(
    most: int, *, seconds: float | None = None, is_async: bool = False
) -> dict[str, Any]:
    """Return settings of an httpx2 client whose answers unpack to ``most`` bytes at most.

    ``seconds`` is what the body may take, however it drips. What is more, later, or packed otherwise
    raises httpx2's errors.
    """
    import httpx2

    class _Unpacked(httpx2.SyncByteStream, httpx2.AsyncByteStream):
        def __init__(self, inner: Any, is_packed: bool) -> None:
            self._inner, self._left, self._since = inner, most, time.monotonic()
            self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if is_packed else None

        def _part(self, data: bytes) -> bytes:
            if seconds is not None and time.monotonic() - self._since > seconds:
                raise httpx2.ReadTimeout(f"no whole answer within {seconds:.0f} s")
            try:
                data = (
                    data if self._unpack is None else self._unpack.decompress(data, self._left + 1)
                )
            except zlib.error as error:
                raise httpx2.DecodingError(f"its gzip is damaged ({error})") from None
            self._left -= len(data)
            if self._left < 0:
                raise httpx2.DecodingError(f"an answer of over {most / 1e6:.0f} MB")
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

    def limit(response: Any) -> None:
        packed = response.headers.pop("content-encoding", "identity").strip().lower()
        if packed not in ("identity", "gzip", "x-gzip", ""):
            raise httpx2.DecodingError(
                f"an answer packed by {packed[:40]}, which was not asked for"
            )
        response.stream = _Unpacked(response.stream, "gzip" in packed)

    async def alimit(response: Any) -> None:
        limit(response)

    hook = alimit if is_async else limit
    return {"headers": {"Accept-Encoding": "gzip"}, "event_hooks": {"response": [hook]}}
