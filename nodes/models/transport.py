"""Where servers are asked: one event loop a process, and HTTP clients within limits.

Only a task can be ended at a deadline whatever its server does (a socket's timeout counts from byte to
byte), so sync callers wait for a task of this loop, too. Connections belong to it, however many loops
the callers have.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, TypeVar

from stategate.stores.answers import limited_answers
from stategate.stores.loopback import on_loopback

#: Bytes that an answer may have.
MOST = 32 << 20

T = TypeVar("T")


def run(task: Coroutine[Any, Any, T]) -> T:
    """Return what ``task`` returns, run on this process's loop; the caller's context goes with it."""
    future = _submit(task)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def arun(task: Coroutine[Any, Any, T]) -> T:
    """Do as :func:`run` does without keeping a thread."""
    return await asyncio.wrap_future(_submit(task))


def _submit(task: Coroutine[Any, Any, T]) -> "Future[T]":
    return asyncio.run_coroutine_threadsafe(task, _loop(os.getpid()))


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the loop of a process: a forked one has no thread of its parent's."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="model servers", daemon=True).start()
    return loop


def http_client(base_url: str, seconds: float, *, is_async: bool = True) -> Any:
    """Return an HTTP client whose answers have a size, and which follows no redirect.

    What is meant for one host, its key above all, is not sent to another; a proxy named in the
    environment does not see what is meant for this machine.
    """
    import openai

    settings: dict[str, Any] = {
        "trust_env": not on_loopback(base_url),
        "follow_redirects": False,
        "timeout": seconds,
        **limited_answers(MOST, is_async=is_async),
    }
    client = openai.DefaultAsyncHttpxClient if is_async else openai.DefaultHttpxClient
    return client(**settings)
