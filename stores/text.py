"""Words of a text: the one tokeniser behind every comparison by words."""

import os
import re
import time
from collections.abc import Sequence
from functools import lru_cache

from stategate.language.words import SMALL_WORDS, stem

_WORD = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?")
_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
#: What moves a terminal's cursor, paints, renames its window or turns a line around.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SENSITIVE = r"(?<![a-z])(?:password|passwd|pwd|api[_-]?key|token|secret|signature)"
_VALUE = r"(?:'[^'\0]*'|\"[^\"\0]*\"|[^&\s'\"\0]+)"
#: A URL's password, a token in place of its user's name, a named secret, a key as providers write it.
_SECRET = re.compile(
    r"(?<=://)[^/\s@:\0]*:(?P<url>[^/\s\0]*)@"
    r"|(?<=://)(?P<user>[^/\s@:\0]{20,})@"
    rf"|(?:{_SENSITIVE}|(?<=[?&])key)\s*=\s*(?P<named>{_VALUE})"
    rf"|[\"'](?:[\w.-]*[^a-z\s/\"'])?{_SENSITIVE}[\"']\s*:\s*(?P<quoted>b?{_VALUE})"
    r"|\b(?:bearer\s+|sk-)(?P<bare>[\w.~+/-]{12,})"
    r"|\b(?P<key>(?:gh[opsu]_|hf_|gsk_)[a-z0-9]{20,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|glpat-[\w-]{16,})",
    re.IGNORECASE,
)
#: Names of environment variables that hold a secret, and how long it is at least.
_NAMED_SECRET = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)
_LEAST_SECRET = 12


@lru_cache(maxsize=16384)
def words_of(text: str) -> tuple[str, ...]:
    """Return the stems of the words of ``text`` in order, without small words."""
    return tuple(stem(w) for w in _WORD.findall(text.lower()) if w not in SMALL_WORDS and w != "s")


def overlap(targets: Sequence[str], text: str) -> float:
    """Return the share (0 to 1) of the stems ``targets`` that ``text`` holds; 1 without any."""
    if not targets:
        return 1.0
    there = set(words_of(text))
    return sum(word in there for word in targets) / len(targets)


def one_line(text: str) -> str:
    """Fold all white space, so that a fact never breaks a format of lines."""
    return " ".join(text.split())


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, given in the singular: ``1 step``, ``2,000 steps``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def day_of(at: float) -> str:
    """Return the day of a time (Unix seconds), in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def without_line_breaks(text: str) -> str:
    """Return ``text`` without line breaks of any kind; its other space stays as it is."""
    return _BREAKS.sub(" ", text)


def storable(text: str) -> str:
    """Return ``text`` as every store takes it: no NUL, no lone surrogate (a broken emoji)."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def printable(text: str) -> str:
    """Return ``text`` as a terminal may get it: what would steer it becomes a mark."""
    return text if text.isascii() and text.isprintable() else _UNPRINTABLE.sub("\ufffd", text)


def without_password(text: str) -> str:
    """Return ``text`` (a URL, or an error that holds one) without passwords, tokens and keys.

    Nor does it hold what the environment keeps as one, in whatever form somebody's error tells it.
    """
    for match in reversed(list(_SECRET.finditer(text))):
        start, end = match.span(str(match.lastgroup))
        text = f"{text[:start]}***{text[end:]}"
    for name, value in os.environ.items():
        if len(value) >= _LEAST_SECRET and value in text and _NAMED_SECRET.search(name):
            text = text.replace(value, "***")
    return text
