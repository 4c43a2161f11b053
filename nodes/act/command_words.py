"""Names, stems and hashed words of commands and other short texts, for the general encoder."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log

from stategate.language.words import stem
from stategate.stores.text import one_line, words_of

_NAMED = re.compile(r"[a-z][a-z'-]*(?: \d+)?|\d+(?:\.\d+)?")


@lru_cache(maxsize=16384)
def names_of(text: str) -> frozenset[str]:
    """Return the names in a text: words, each with the number that follows it, if any."""
    return frozenset(names_in(one_line(text)))


def names_in(text: str) -> list[str]:
    """Return the names in a text in order, with repeats."""
    return [match[0] for match in _NAMED.finditer(text.lower()) if words_of(match[0])]


def numbered(names: frozenset[str]) -> frozenset[str]:
    """Return the names that have a number."""
    return frozenset(name for name in names if name[-1].isdigit())


def name_rarity(names: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return each name's rarity among the commands (inverse document frequency)."""
    counts = Counter(name for own in names for name in own)
    return {name: log((len(names) + 1) / (n + 0.5)) + 0.05 for name, n in counts.items()}


def shared_names(own: frozenset[str], other: frozenset[str], weights: Mapping[str, float]) -> float:
    """Return the rarity-weighted share of the names ``own`` that are among ``other``."""
    if not own or own.isdisjoint(other):
        return 0.0
    total = sum(weights[name] for name in own)
    return sum(weights[name] for name in own & other) / total if total else 0.0


@lru_cache(maxsize=16384)
def command_kind(action: str) -> str:
    """Return a command without its numbers."""
    return one_line(re.sub(r"\d+", "", action.lower()))


@lru_cache(maxsize=16384)
def word_stems(text: str) -> tuple[str, ...]:
    """Return the stems of a command or another text, numbers left out."""
    return tuple(w for w in words_of(text) if not w[0].isdigit())


def says_any(text: str, stems: frozenset[str]) -> bool:
    """Say whether a text holds any of ``stems``."""
    return not stems.isdisjoint(word_stems(text))


def word_share(targets: frozenset[str], own: frozenset[str]) -> float:
    """Return the share of ``targets`` that is in ``own`` (recall), 0 without targets."""
    return len(targets & own) / len(targets) if targets else 0.0


@lru_cache(maxsize=4096)
def stems_of(text: str) -> frozenset[str]:
    """Return the stems of a text as a set."""
    return frozenset(words_of(text))


@lru_cache(maxsize=16384)
def hashed_words(name: str, words: tuple[str, ...], size: int) -> Mapping[str, float]:
    """Return signed counts of ``words`` in ``size`` buckets, scaled to length one: "word 3"."""
    row = [0.0] * size
    for word in words:
        digest = hashlib.blake2b(stem(word).encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        row[(number >> 1) % size] += 1.0 if number & 1 else -1.0
    length = sum(x * x for x in row) ** 0.5
    return {f"{name} {i}": x / length for i, x in enumerate(row) if x}
