"""The one exception that means "the caller can fix this"."""

from collections.abc import Iterator
from contextlib import contextmanager

from stores.text import without_password


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


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a missing package of the optional part ``extra`` into a line that says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        line = f"'{package}' is not installed: pip install 'stategate[{extra}]'"
        raise MissingExtra(line) from None
