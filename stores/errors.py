"""The one exception that means "the caller can fix this"."""

import logging
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

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


_LONGEST = 30  # letters of a word


def describe_error(error: BaseException, limit: int = 160) -> str:
    """Return what an error says on one line, without passwords; its type where it says nothing."""
    line = without_password(one_line(str(error))) or type(error).__name__
    words, _, tail = line[: limit - 1].rpartition(" ")
    cut = line[: limit - 1] if len(tail) > _LONGEST else words  # a path is cut where it must be
    return line if len(line) <= limit else f"{cut}…"


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
    lzma.LZMAError,
    tarfile.TarError,
    zlib.error,
)


@contextmanager
def user_error_context(
    what: str, fix: str = "", kinds: type[Exception] | tuple[type[Exception], ...] = UNREADABLE
) -> Iterator[None]:
    """Turn errors of ``kinds`` into one line, a ``UserError``: what failed (why): how to mend it."""
    try:
        yield
    except kinds as error:
        if isinstance(error, UnicodeError):
            error = ValueError("it is no text in UTF-8")
        is_bare = isinstance(error, LookupError | TypeError | AttributeError)
        why = (
            error_with_type(error)
            if is_bare
            else getattr(error, "strerror", None) or describe_error(error)
        )
        raise UserError(f"{what} ({why}){f': {fix}' if fix else ''}") from error


#: The optional parts, and the packages that each brings, as they are imported.
_EXTRAS = {
    "local": "accelerate gguf jinja2 sentence_transformers torch transformers xllamacpp",
    "qa": "bm25s bs4 chromadb pypdf",
    "ui": "gradio markupsafe pandas starlette",
    "eval": "ir_measures matplotlib pytrec_eval scipy tabulate",
    "postgres": "langgraph.checkpoint.postgres psycopg psycopg_pool",
    "ray": "ray",
    "mcp": "mcp",
}


def missing_extra(error: BaseException | None) -> MissingExtra | None:
    """Return the line for a package of an optional part that is not installed, None for all else."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        names = {error.name, error.name.partition(".")[0]}
        for extra, packages in _EXTRAS.items():
            for name in names.intersection(packages.split()):
                return MissingExtra(f"'{name}' is not installed: pip install 'stategate[{extra}]'")
    return None
