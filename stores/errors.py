"""The one exception that means "the caller can fix this"."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from stategate.stores.text import one_line, without_password


class UserError(Exception):
    """A mistake of the caller's, told in one line that names the fix.

    Command-line tools print it without a traceback and exit with code 2. Passwords of URLs in it are
    left out, wherever it is shown or written down.
    """

    def __str__(self) -> str:
        """Return the line."""
        return without_password(super().__str__())


class ModelUnavailable(UserError):
    """The language model's server did not answer; worth retrying, then worth telling."""


class MissingExtra(UserError):
    """A package of an optional part is not installed."""


@cache
def warn_once(line: str) -> None:
    """Log a warning, the same one once."""
    logging.getLogger("stategate").warning(line)


def describe_error(error: BaseException, limit: int = 160) -> str:
    """Return what an error says on one line, without passwords; its type where it says nothing."""
    return without_password(one_line(str(error)))[:limit] or type(error).__name__


def error_with_type(error: BaseException, limit: int = 160) -> str:
    """Return what an error is and says, where that is more than a caller's mistake."""
    return f"{type(error).__name__}: {describe_error(error, limit)}"


#: What reading raises where something is not there, damaged, or made of something else.
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


@contextmanager
def user_error_context(
    what: str, fix: str = "", kinds: type[Exception] | tuple[type[Exception], ...] = UNREADABLE
) -> Iterator[None]:
    """Turn errors of ``kinds`` into one line, a ``UserError``: what failed (why): how to mend it."""
    try:
        yield
    except kinds as error:
        is_bare = isinstance(error, LookupError | TypeError | AttributeError)
        why = (
            error_with_type(error)
            if is_bare
            else getattr(error, "strerror", None) or describe_error(error)
        )
        raise UserError(f"{what} ({why}){f': {fix}' if fix else ''}") from error


#: Packages of optional parts whose distributions are called otherwise.
_CALLED = {
    "bs4": "beautifulsoup4",
    "pytrec_eval": "pytrec-eval-terrier",
    "Stemmer": "PyStemmer",
}


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Turn a missing package of the optional part ``extra`` into a line that says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise _without(error, extra) from None


def missing_extra(error: BaseException | None) -> MissingExtra | None:
    """Return the line for a package of an optional part that is not installed, None for all else."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    extra = extra_of(_CALLED.get(package, package))
    return None if extra is None else _without(error, extra)


def extra_of(distribution: str) -> str | None:
    """Return the optional part that brings ``distribution``, the smallest; None for none."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    parts: dict[str, list[str]] = {}
    for needed in map(Requirement, requires("stategate") or ()):
        extra = re.search(r'extra == "([\w-]+)"', str(needed.marker or ""))
        if extra is not None:
            parts.setdefault(extra[1], []).append(canonicalize_name(needed.name))
    bringing = [name for name, own in parts.items() if canonicalize_name(distribution) in own]
    return min(bringing, key=lambda name: len(parts[name]), default=None)


def _without(error: ModuleNotFoundError, extra: str) -> MissingExtra:
    package, _, submodule = (error.name or "a package").partition(".")
    # A missing submodule is another distribution's part of a shared folder.
    if submodule and find_spec(package) is not None:
        package = str(error.name)
    return MissingExtra(f"'{package}' is not installed: pip install 'stategate[{extra}]'")
