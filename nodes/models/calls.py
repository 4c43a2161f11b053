"""Calls of model servers: one event loop a process, one deadline a call, failures in a user's words.

Only a task can be ended at a deadline whatever its server does (a socket's timeout counts from byte to
byte), so sync callers wait for a task of this loop, too. Connections belong to it, however many loops
the callers have. OpenAI's client asks a busy server again; the deadline holds for all its tries.
"""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx2
from langchain_core.messages import AIMessage, BaseMessage

from stategate.nodes.resources import Resources
from stategate.stores.errors import (
    UNREADABLE,
    ModelUnavailable,
    UserError,
    describe_error,
    error_with_type,
)
from stategate.stores.http import on_loopback
from stategate.stores.text import one_line, storable, without_password

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

#: Bytes that an answer may have: to decode a larger one would outlast the deadline.
MAX_ANSWER_BYTES = 32 << 20
#: How often OpenAI's client asks again a server that is gone or busy.
RETRIES = 2
#: Statuses of servers that may answer later.
_BUSY = (408, 409, 425, 429)
#: Brackets of a reply that may turn out to begin nothing.
_STARTS = 1_000

T = TypeVar("T")


class RequestRefused(UserError):
    """The server does not take what it was asked, such as a form of answer (HTTP 400)."""


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
    """Return an HTTP client that follows no redirect and reads no endless answer.

    What is meant for one host, its key above all, is not sent to another; a proxy named in the
    environment does not see what is meant for this machine.
    """
    import openai

    settings: dict[str, Any] = {
        "trust_env": not on_loopback(base_url),
        "follow_redirects": False,
        "timeout": seconds,
    }
    if not is_async:
        return openai.DefaultHttpxClient(**settings)
    return openai.DefaultAsyncHttpxClient(**settings, event_hooks={"response": [_limit]})


class _Limited(httpx2.AsyncByteStream):
    """A stream that fails once it has sent more than ``MAX_ANSWER_BYTES``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise httpx2.DecodingError("an answer of over 32 MB")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


#: The responses to a call and its retries.
_responses: ContextVar[list[Any]] = ContextVar("responses")


async def _limit(response: Any) -> None:
    _responses.get([]).append(response)
    response.stream = _Limited(response.stream)


async def guarded(model: Any, call: Callable[[Any], Awaitable[T]]) -> T:
    """Return what ``call`` makes of ``model`` within the model's timeout.

    Raises ``ModelUnavailable`` where the server is gone, busy, too slow or gives no answer that can be
    read, :class:`RequestRefused` for a refused form, and ``UserError`` where it refuses otherwise.
    Is run by :func:`run` or :func:`arun`.
    """
    import openai

    seconds = getattr(model, "request_timeout", None)
    where = without_password(str(getattr(model, "openai_api_base", None) or "its default address"))
    server = f"the model server at {where}"
    responses: list[Any] = []
    _responses.set(responses)

    def unavailable(problem: str) -> ModelUnavailable:
        fix = "start it, wait, or check its base_url"
        if responses and (wait := responses[-1].headers.get("retry-after", "")[:40]):
            until = f"{wait} s" if wait.isdigit() else f"until {wait}"  # seconds, or a date
            fix = f"it asks to wait {until}; ask again then, or raise timeout"
        return ModelUnavailable(f"{server} {problem}: {fix}")

    try:
        async with asyncio.timeout(seconds):
            return await call(model)
    except UserError:
        raise
    except TimeoutError as error:
        raise unavailable(f"gives no whole answer within {seconds:.0f} s") from error
    except openai.APIStatusError as error:
        reason = _reason_of(error)
        if error.status_code in _BUSY or error.status_code >= 500:
            raise unavailable(f"is busy or broken ({reason})") from error
        fix = "check base_url (redirects are not followed), the model's name and settings, the key"
        kind = RequestRefused if isinstance(error, openai.BadRequestError) else UserError
        raise kind(f"{server} refused the request ({reason}): {fix}") from error
    except (openai.APIError, httpx2.HTTPError) as error:
        raise unavailable(f"does not answer ({_reason_of(error)})") from error
    # What clients raise for an answer that is none: a text for an object, no choices, deep JSON.
    except (*UNREADABLE, ArithmeticError) as e:
        if reason := _error_in(responses):
            raise unavailable(f"answers with an error ({reason})") from e
        raise ModelUnavailable(
            f"{server} gives no answer that can be read ({error_with_type(e)}): "
            "is it an OpenAI-compatible server, and its URL the one that ends in /v1?"
        ) from e


def _error_in(responses: Sequence[Any]) -> str:
    """Return the error that the last response's JSON names, "" where there is none."""
    with suppress(*UNREADABLE, RuntimeError):  # no JSON, none read, none named
        error = responses[-1].json()["error"]
        message = error.get("message") if isinstance(error, dict) else error
        return describe_error(ValueError(message)) if message else ""
    return ""


def _reason_of(error: BaseException) -> str:
    """Return what an error says, and its cause: clients wrap the reason, some of them twice."""
    reasons = ""
    cause: BaseException | None = error
    while cause is not None:
        reason = one_line(str(cause))
        reasons = reasons if reason in reasons else f"{reasons} {reason}".strip()
        cause = cause.__cause__
    return without_password(reasons)[:160] or type(error).__name__


# Asking -------------------------------------------------------------------------------------------


#: Asks the configured chat model, with settings of the call such as a response format.
Ask = Callable[..., Awaitable[AIMessage]]


def ask(
    resources: Resources,
    messages: Sequence[BaseMessage],
    max_tokens: int,
    schema: dict[str, Any] | None = None,
) -> str:
    """Return the configured model's reply of at most ``max_tokens``. Raises ``UserError``."""
    settings = {"max_tokens": max_tokens}
    if schema is not None:
        # A server without structured output: the prompt says the form, too.
        with suppress(RequestRefused):
            form = response_format(schema)
            return str(run(reply_to(resources, messages, {**settings, **form})).text)
    return str(run(reply_to(resources, messages, settings)).text)


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the call's settings that hold a reply to ``schema``."""
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    return {"response_format": form}


async def reply_to(
    resources: Resources, messages: Sequence[BaseMessage], settings: dict[str, Any]
) -> AIMessage:
    """Return the configured model's reply; one that is gone is built anew, an embedded one at once."""
    said = [_storable(message) for message in messages]
    for is_last in (resources.llm_params.kind != "embedded", True):
        model = await asyncio.to_thread(lambda: resources.llm)  # building may start a server
        try:
            reply = await guarded(model, lambda m: m.ainvoke(said, **settings))
            break
        except ModelUnavailable as error:
            resources.forget(resources.llm_params)
            if is_last or isinstance(error.__cause__, TimeoutError):
                raise
    reply = _storable(reply)
    return reply if isinstance(reply, AIMessage) else AIMessage(str(reply.content))


def _storable(message: BaseMessage) -> BaseMessage:
    """Return a message whose text can be sent and stored: a model writes broken emoji, too."""
    text = message.content
    return (
        message.model_copy(update={"content": storable(text)}) if isinstance(text, str) else message
    )


# JSON ---------------------------------------------------------------------------------------------


def json_in(reply: str) -> dict[str, Any]:
    """Return the first JSON object in ``reply``, an empty one where there is none."""
    start, failed = reply.find("{"), 0
    while start >= 0 and failed < _STARTS:
        try:
            value: dict[str, Any] = json.JSONDecoder().raw_decode(reply, start)[0]
            return value
        except (ValueError, RecursionError):
            failed += 1
        start = reply.find("{", start + 1)
    return {}


# Usage and cost -----------------------------------------------------------------------------------


def spent(model: "BaseChatModel", replies: Sequence[AIMessage]) -> dict[str, Any]:
    """Return what ``replies`` cost together, as fields of a decision; 0 where no server says it.

    Tokens read and written, those of the former that a provider's cache held, US dollars.
    """
    used = [reply.usage_metadata for reply in replies if reply.usage_metadata]
    tokens_in = sum(one["input_tokens"] for one in used)
    tokens_out = sum(one["output_tokens"] for one in used)
    details = [cast("dict[str, int]", one.get("input_token_details") or {}) for one in used]
    read = sum(one.get("cache_read") or 0 for one in details)
    written = sum(one.get(name) or 0 for one in details for name in _WRITES)
    cost = cost_of(model, tokens_in, tokens_out, read, written)
    return {"tokens_in": tokens_in, "tokens_out": tokens_out, "cached": read, "cost": cost}


#: What LangChain's clients call tokens written to a cache (some by how long they stay there).
_WRITES = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def cost_of(
    model: "BaseChatModel",
    tokens_in: int,
    tokens_out: int,
    cache_read: int = 0,
    cache_write: int = 0,
) -> float | None:
    """Return US dollars by the public list; 0 for a model on this machine, None if unknown.

    ``tokens_in`` counts all that was read, also what came from a provider's cache or went into it.
    """
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    if on_loopback(getattr(model, "openai_api_base", None) or ""):
        return 0.0
    name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")
    tokens = Tokens(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )
    try:
        return float(calc_price(tokens, model_ref=name).total_price)
    except (LookupError, ValueError):
        return None
