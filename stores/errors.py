"""The one exception that means "the caller can fix this", and how command lines tell it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """A mistake of the caller's, told in one line that names the fix.

    Command-line tools print it without a traceback and exit with code 2.
    """


class ModelUnavailable(UserError):
    """The language model's server did not answer; worth retrying, then worth telling."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a missing package of the optional part ``extra`` into a line that says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        raise UserError(f"'{package}' is not installed: pip install 'stategate[{extra}]'") from None


@contextmanager
def mistakes_in_one_line(*also: type[Exception]) -> Iterator[None]:
    """Tell a ``UserError``, or one of ``also``, in one line on standard error, and exit with code 2.

    For the command lines that are modules (``python -m trainers.…``); ``stategate`` has its own.
    """
    mistakes: tuple[type[Exception], ...] = (UserError, *also)
    try:
        yield
    except mistakes as error:
        sys.stderr.write(f"stategate: {error}\n")
        sys.exit(2)
