"""Words of a text: the one tokeniser behind every comparison by words."""

import re
from collections.abc import Sequence
from functools import lru_cache

_WORD = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?")
_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_PASSWORD = re.compile(r"(?<=://)([^/\s@:]*):([^/\s]*)@")
_NAMED = re.compile(r"(?i)\b(password|passwd|api_key|token)=[^&\s'\"]+")
#: Words that say nothing of what a text is about.
SMALL = frozenset(
    [
        *"a an the and or of in on to is it i me my we you am are be for with that this should".split(),
        *"please find looking need want can make sure say says hello about which has have".split(),
    ]
)


@lru_cache(maxsize=16384)
def words_of(text: str) -> tuple[str, ...]:
    """Return the stems of the words of ``text`` in order, without small words."""
    return tuple(stem(w) for w in _WORD.findall(text.lower()) if w not in SMALL and w != "s")


def overlap(wanted: Sequence[str], text: str) -> float:
    """Return the share (0 to 1) of the stems ``wanted`` that ``text`` holds; 1 if none is wanted."""
    if not wanted:
        return 1.0
    there = set(words_of(text))
    return sum(word in there for word in wanted) / len(wanted)


def stem(word: str) -> str:
    """Return ``word`` without its commonest English endings."""
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)].removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word


def one_line(text: str) -> str:
    """Fold all white space, so that a fact never breaks a format of lines."""
    return " ".join(text.split())


def unbroken(text: str) -> str:
    """Return ``text`` without line breaks of any kind; its other space stays as it is."""
    return _BREAKS.sub(" ", text)


def storable(text: str) -> str:
    """Return ``text`` as every store takes it: no NUL, no lone surrogate (a broken emoji)."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def without_password(text: str) -> str:
    """Return ``text`` (a URL, or an error that holds one) without the passwords of its URLs."""
    return _NAMED.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", text))
