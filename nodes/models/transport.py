"""HTTP to model servers within limits: one deadline for a whole answer, a size, and no redirects.

A client's own timeout counts from byte to byte, so that a server which drips keeps it waiting for
ever. Here every read gets what is left of the answer's time. A redirect is not followed: what is meant
for one host, its key above all, is not sent to another.
"""

import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from stategate.stores.answers import limited_answers

#: Bytes that an answer may have.
MOST = 32 << 20


@dataclass
class _Allowance:
    """What the request that this context makes may still take."""

    deadline: float
    left: int = MOST

    def patience(self, timeout: float | None) -> float:
        """Return the seconds that one read may take."""
        remaining = self.deadline - time.monotonic()
        return max(remaining if timeout is None else min(timeout, remaining), 0.0)


_allowance: ContextVar[_Allowance | None] = ContextVar("what an answer may take", default=None)


def limited_client(seconds: float, *, trust_env: bool, is_async: bool = False) -> Any:
    """Return an httpx2 client whose answers take ``seconds`` at most, to the last byte.

    ``trust_env`` says whether proxies named in the environment may see what is sent.
    """
    import httpcore2
    import httpx2

    class _Stream(httpcore2.NetworkStream):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            data: bytes = self._inner.read(max_bytes, _patience(timeout))
            return _counted(data)

        def write(self, buffer: bytes, timeout: float | None = None) -> None:
            self._inner.write(buffer, _patience(timeout))

        def start_tls(
            self, ssl_context: Any, server_hostname: Any = None, timeout: float | None = None
        ) -> Any:
            inner = self._inner.start_tls(ssl_context, server_hostname, _patience(timeout))
            return _Stream(inner)

        def close(self) -> None:
            self._inner.close()

        def get_extra_info(self, info: str) -> Any:
            return self._inner.get_extra_info(info)

    class _AsyncStream(httpcore2.AsyncNetworkStream):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
            data: bytes = await self._inner.read(max_bytes, _patience(timeout))
            return _counted(data)

        async def write(self, buffer: bytes, timeout: float | None = None) -> None:
            await self._inner.write(buffer, _patience(timeout))

        async def start_tls(
            self, ssl_context: Any, server_hostname: Any = None, timeout: float | None = None
        ) -> Any:
            inner = await self._inner.start_tls(ssl_context, server_hostname, _patience(timeout))
            return _AsyncStream(inner)

        async def aclose(self) -> None:
            await self._inner.aclose()

        def get_extra_info(self, info: str) -> Any:
            return self._inner.get_extra_info(info)

    def _patience(timeout: float | None) -> float | None:
        allowed = _allowance.get()
        if allowed is None:
            return timeout
        if (left := allowed.patience(timeout)) <= 0:
            raise httpcore2.ReadTimeout(f"no whole answer within {seconds:.0f} s")
        return left

    def _counted(data: bytes) -> bytes:
        allowed = _allowance.get()
        if allowed is not None:
            allowed.left -= len(data)
            if allowed.left < 0:
                raise httpcore2.ReadError(f"an answer of over {MOST >> 20} MB")
        return data

    class _Backend(httpcore2.NetworkBackend):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def connect_tcp(
            self, host: str, port: int, timeout: Any = None, *rest: Any, **more: Any
        ) -> Any:
            return _Stream(self._inner.connect_tcp(host, port, _patience(timeout), *rest, **more))

        def connect_unix_socket(
            self, path: str, timeout: Any = None, *rest: Any, **more: Any
        ) -> Any:
            return _Stream(self._inner.connect_unix_socket(path, _patience(timeout), *rest, **more))

        def sleep(self, seconds: float) -> None:
            self._inner.sleep(seconds)

    class _AsyncBackend(httpcore2.AsyncNetworkBackend):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def connect_tcp(
            self, host: str, port: int, timeout: Any = None, *rest: Any, **more: Any
        ) -> Any:
            stream = await self._inner.connect_tcp(host, port, _patience(timeout), *rest, **more)
            return _AsyncStream(stream)

        async def connect_unix_socket(
            self, path: str, timeout: Any = None, *rest: Any, **more: Any
        ) -> Any:
            patience = _patience(timeout)
            stream = await self._inner.connect_unix_socket(path, patience, *rest, **more)
            return _AsyncStream(stream)

        async def sleep(self, seconds: float) -> None:
            await self._inner.sleep(seconds)

    class Limited(httpx2.Client):
        def send(self, request: Any, **more: Any) -> Any:
            _allowance.set(_Allowance(time.monotonic() + seconds))
            return super().send(request, **more)

    class AsyncLimited(httpx2.AsyncClient):
        async def send(self, request: Any, **more: Any) -> Any:
            _allowance.set(_Allowance(time.monotonic() + seconds))
            return await super().send(request, **more)

    settings: dict[str, Any] = {
        "trust_env": trust_env,
        "follow_redirects": False,
        "timeout": seconds,
        **limited_answers(MOST, is_async=is_async),
    }
    client: Any = (AsyncLimited if is_async else Limited)(**settings)
    for transport in (client._transport, *client._mounts.values()):
        if transport is not None:
            pool = transport._pool
            make = _AsyncBackend if is_async else _Backend
            pool._network_backend = make(pool._network_backend)
    return client
