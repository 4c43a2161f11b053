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

#: Seconds that a server's "come back later" is waited for in all, and how often it is asked again.
PATIENCE, TRIES = 60.0, 4

T = TypeVar("T")


def guarded(model: Any, call: Callable[[], T]) -> T:
    """Return what ``call`` returns; where the server says when to come back, it is asked again then.

    Raises ``ModelUnavailable`` where the server is gone, busy for longer, or cannot be understood, and
    ``UserError`` where it refuses. A refused form of answer (``openai.BadRequestError``) passes.
    """
    waited = 0.0
    for attempt in itertools.count(1):
        try:
            return call()
        except Exception as error:
            pause = _pause_after(model, error, attempt, waited)
        time.sleep(pause)
        waited += pause
    raise AssertionError("unreachable")


async def aguarded(model: Any, call: Callable[[], Awaitable[T]]) -> T:
    """Do as :func:`guarded` does without keeping a thread while the server thinks."""
    waited = 0.0
    for attempt in itertools.count(1):
        try:
            return await call()
        except Exception as error:
            pause = _pause_after(model, error, attempt, waited)
        await asyncio.sleep(pause)
        waited += pause
    raise AssertionError("unreachable")


def _pause_after(model: Any, error: Exception, attempt: int, waited: float) -> float:
    """Return the seconds after which to ask again; raises what the user is to read instead."""
    import httpx2
    import openai

    if isinstance(error, (openai.BadRequestError, UserError)):
        raise error
    if isinstance(error, openai.APIStatusError):
        if error.status_code not in (408, 409, 425, 429) and error.status_code < 500:
            raise UserError(f"the model server refused the request: {_said(error)}") from error
        pause = _retry_after(error)
        if pause is None:
            raise _unavailable(model, f"answers {error.status_code}: {_said(error)}") from error
        if attempt == TRIES or waited + pause > PATIENCE:
            raise _unavailable(model, f"is busy and asks to wait {pause:.0f} s") from error
        return pause
    if isinstance(error, (openai.APIError, httpx2.HTTPError)):
        raise _unavailable(model, f"does not answer ({_said(error)})") from error
    if isinstance(error, RecursionError):
        raise _unreadable(model, error) from None
    # What clients raise for an answer that is none: a text for an object, no choices, deep JSON.
    if isinstance(error, (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)):
        raise _unreadable(model, error) from error
    raise error


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
