"""Lucene's English analysis: standard tokenizer, possessive, lower case, stop words, Porter."""

from collections.abc import Iterator
from functools import lru_cache

import regex

from envs.webshop.porter import stem

_STOP = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then"
    " there these they this to was will with".split()
)

# Unicode word boundaries (UAX #29) as Lucene's standard tokenizer applies them: letters and digits run
# together, letters also across one MidLetter, digits across one MidNum; "_" joins; a Han or Hiragana
# character or an emoji is a word of its own; Katakana runs together.
_X = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"
_LETTER = r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}]"
_DIGIT = r"\p{WB=Numeric}"
_MID_LETTER = r"[\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}]"
_MID_DIGIT = r"[\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}]"
_JOINER = r"\p{WB=ExtendNumLet}"
#: Extended_Pictographic as in Unicode 12, which Lucene's grammar was made from (later ones shrank it).
_EMOJI = (
    r"\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388"
    r"\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2605"
    r"\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2714\u2716\u271d\u2721\u2728\u2733"
    r"\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2767\u2795-\u2797\u27a1\u27b0"
    r"\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299"
    r"\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
)
_RUN = (
    rf"(?:{_LETTER}{_X}|{_DIGIT}{_X})(?:{_LETTER}{_X}|{_DIGIT}{_X}"
    rf"|(?<={_LETTER}{_X.rstrip('+')}){_MID_LETTER}{_X}(?={_LETTER})"
    rf"|(?<={_DIGIT}{_X.rstrip('+')}){_MID_DIGIT}{_X}(?={_DIGIT}))*+"
)
_PART = rf"(?:{_RUN}|(?:\p{{WB=Katakana}}{_X})++)"
_WORD = regex.compile(
    rf"(?:{_JOINER}{_X})*+{_PART}(?:(?:{_JOINER}{_X})++{_PART})*+(?:{_JOINER}{_X})*+"
    rf"|[\p{{Han}}\p{{Hiragana}}]{_X}"
    rf"|[{_EMOJI}]{_X}(?:\u200d[{_EMOJI}]{_X})*",
    regex.V1,
)
_POSSESSIVE = regex.compile(r"['\u2019\uff07][sS]$")
_LONGEST = 255


def analyze(text: str) -> list[str]:
    """Return the index terms of ``text``, in order."""
    return [term for word in words(text) if (term := _term(word)) is not None]


def words(text: str) -> Iterator[str]:
    """Yield the words that the standard tokenizer finds."""
    for match in _WORD.finditer(text):
        word = match.group()
        for start in range(0, len(word), _LONGEST):
            yield word[start : start + _LONGEST]


@lru_cache(maxsize=1 << 17)
def _term(word: str) -> str | None:
    lower = _POSSESSIVE.sub("", word).lower()
    if lower in _STOP or not lower:
        return None
    return stem(lower)
