"""What goes wrong with a model server, in the words of a user: one line, whatever the server did.

A server may refuse, be gone, be busy ("come back in 7 s"), answer with a page of HTML, with nothing,
with something nested a million times, or break off. None of it is a fault of this program, and none of
it may look like one.
"""

import asyncio
import email.utils
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from stategate.stores.errors import ModelUnavailable, UserError, error_with_type
from stategate.stores.text import one_line, without_password

#: How often a server is asked in all.
TRIES = 3

T = TypeVar("T")


async def guarded(
    model: Any, call: Callable[[Any], Awaitable[T]], renew: Callable[[], Any] | None = None
) -> T:
    """Return what ``call`` makes of ``model``, tried again within the model's timeout.

    The timeout is for all tries. A server that is gone, busy or breaks off is asked again: when it
    says, else after half a second, then one. ``renew`` makes the client anew before that. Raises
    ``ModelUnavailable`` where no try succeeds, or the answer cannot be understood, and ``UserError``
    where the server refuses. A refused form of answer (``openai.BadRequestError``) passes. To be run by
    ``transport.run`` or ``arun``.
    """
    seconds = getattr(model, "request_timeout", None)
    last: Exception | None = None
    try:
        async with asyncio.timeout(seconds) as scope:
            for attempt in itertools.count(1):
                try:
                    return await call(model)
                except Exception as error:
                    last, pause = error, _pause_after(model, error, attempt)
                    ends = scope.when()
                    if ends is not None and asyncio.get_running_loop().time() + pause > ends:
                        raise _unavailable(model, f"{_state(error)}, for {pause:.0f} s") from error
                await asyncio.sleep(pause)
                if renew is not None:
                    model = await asyncio.to_thread(renew)
    except TimeoutError as error:
        problem = f"gives no whole answer within {seconds:.0f} s" if last is None else _state(last)
        raise _unavailable(model, problem) from error
    raise AssertionError("unreachable")


def _pause_after(model: Any, error: Exception, attempt: int) -> float:
    """Return the seconds after which to ask again; raises what the user is to read instead."""
    import httpx2
    import openai

    if isinstance(error, (openai.BadRequestError, UserError)):
        raise error
    usual = 0.5 * 2 ** (attempt - 1)
    if isinstance(error, openai.APIStatusError):
        if error.status_code not in (408, 409, 425, 429) and error.status_code < 500:
            raise UserError(f"the model server refused the request: {_said(error)}") from error
        asked = _retry_after(error)
        pause = usual if asked is None else asked
    elif isinstance(error, (openai.APIError, httpx2.HTTPError)):
        pause = usual
    elif isinstance(error, RecursionError):
        raise _unreadable(model, error) from None
    # What clients raise for an answer that is none: a text for an object, no choices, deep JSON.
    elif isinstance(error, (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)):
        raise _unreadable(model, error) from error
    else:
        raise error
    if attempt == TRIES:
        raise _unavailable(model, _state(error)) from error
    return pause


def _state(error: Exception) -> str:
    """Say what a server that may be asked again did."""
    import openai

    if not isinstance(error, openai.APIStatusError):
        return f"does not answer ({_said(error)})"
    asked = _retry_after(error)
    if asked is not None:
        return f"is busy and asks to wait {asked:.0f} s"
    return f"answers {error.status_code}: {_said(error)}"


def _said(error: BaseException) -> str:
    said = one_line(str(error))
    cause: BaseException | None = error
    while (
        cause is not None and (cause := cause.__cause__) is not None
    ):  # clients wrap the reason, some of them twice
        if str(cause) and (reason := one_line(str(cause))) not in said:
            said = f"{said} {reason}"
    return without_password(said)[:160] or type(error).__name__


def _retry_after(error: Any) -> float | None:
    """Return the seconds after which the server wants to be asked again, None if it does not say."""
    headers = error.response.headers
    if (milliseconds := headers.get("retry-after-ms", "")).isdigit():
        return float(milliseconds) / 1000
    told = str(headers.get("retry-after", "")).strip()
    try:
        seconds = float(told)
    except ValueError:
        parsed = email.utils.parsedate_tz(told)
        if parsed is None:
            return None
        seconds = email.utils.mktime_tz(parsed) - time.time()
    return max(seconds, 0.0) if seconds == seconds else None


def _address(model: Any) -> str:
    where = str(getattr(model, "openai_api_base", None) or "its default address")
    return without_password(where)


def _unavailable(model: Any, problem: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"the model server at {_address(model)} {problem}: start it, wait, or set llm.base_url"
    )


def _unreadable(model: Any, error: BaseException) -> ModelUnavailable:
    return ModelUnavailable(
        f"the model server at {_address(model)} gives no answer that can be read "
        f"({error_with_type(error)}): is it an OpenAI-compatible server, "
        "and its URL the one that ends in /v1?"
    )
