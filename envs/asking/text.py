"""Any text as tokens that compare: stems, numbers with their units, sizes in one spelling."""

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from stategate.language.words import CARDINALS
from stategate.stores.text import stem

_BELOW = {"zero": 0, **CARDINALS, "dozen": 12}  # a hundred
_UNITS, _TENS = ("|".join(list(CARDINALS)[i:j]) for i, j in ((0, 9), (19, 27)))
_SPELLED = rf"(?:(?:{_TENS})[ -]+(?:{_UNITS})|{'|'.join(_BELOW)})"
#: Letter sizes come first, in one spelling: "xx-large", "xxl", "2xl" and "2x-large" are one token.
_TOKEN = re.compile(
    r"(?P<size>\b(?:(?P<xs>x{1,6})|(?P<count>\d{1,2})[ -]?x|extra(?![ls]\b))[ -]?"
    r"(?P<letter>large|small|l|s)\b)"
    rf"|(?P<spelled>(?<![^\W\d_])(?:(?:(?:{_UNITS})[ -]+)?hundred(?:[ -]+(?:and[ -]+)?{_SPELLED})?"
    rf"|{_SPELLED})(?![^\W\d_]))"
    r"|[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+|[$€£<>\"']"
)
_MARKS = {"’": "'", "“": '"', "”": '"', "″": '"', "×": "x"}
_DIGITS = frozenset("0123456789")
_CLOSE = 0.015  # relative difference of amounts that are the same in other units


@cache
def english() -> dict[str, Any]:
    """Return the closed classes of words (``words.toml``), as sets, and the units."""
    known = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
    return {
        name: {unit: (kind, float(size)) for unit, (kind, size) in value.items()}
        if name == "units"
        else frozenset(value)
        for name, value in known.items()
    }


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a number of a text: ``text[start:end]``.

    ``key`` is what compares: a stem, or a number's digits. ``value`` is the number, ``unit`` its
    dimension ("" where none is said), ``size`` how much it is in that dimension's base unit.
    """

    key: str
    word: str
    start: int
    end: int
    value: float | None = None
    unit: str = ""
    size: float = 0.0
    is_glued: bool = False

    @property
    def is_small(self) -> bool:
        """Whether it is a word that says nothing of what a text is about.

        One letter that is glued to others ("a-blue", "b#1") is part of a name.
        """
        if self.is_glued and self.word.isalpha():
            return False
        return self.word in english()["small"] or (self.value is None and not self.word.isalnum())


@lru_cache(maxsize=65536)
def tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of ``text``, in order; a unit belongs to the number before it."""
    plain = _plain(text)
    raw: list[Token] = []
    for found in _TOKEN.finditer(plain):
        word, (start, end) = found[0], found.span()
        if found["size"]:
            count = int(found["count"]) if found["count"] else len(found["xs"] or "x")
            name = f"{count}x{'large' if found['letter'].startswith('l') else 'small'}"
            raw.append(Token(name, name, start, end))
        elif found["spelled"]:
            raw.append(_number(_spelled(word), re.split("[ -]", word)[0], start, end))
        elif word[0] == "0" and word.isdecimal() and len(word) > 1:
            raw.append(Token(word, word, start, end))  # a code, not an amount
        elif word[0] in _DIGITS:
            value = _value(word)
            if plain[start - 1 : start] in tuple("$€£") and re.match(r"k(?![^\W\d_])", plain[end:]):
                value, end = value * 1000, end + 1  # $1.5k
            raw.append(_number(value, word, start, end))
        elif not raw or start >= raw[-1].end:
            is_glued = len(word) == 1 and _is_glued(plain, start, end)
            raw.append(Token(stem(word), word, start, end, is_glued=is_glued))
    return _with_units(raw, plain)


def content(text: str) -> tuple[Token, ...]:
    """Return the tokens of ``text`` without small words and marks."""
    return tuple(token for token in tokens(text) if not token.is_small)


def same(one: Token, other: Token) -> float:
    """Return how far (0 to 1) two tokens are the same word, or the same amount."""
    if one.value is None or other.value is None:
        return float(one.key == other.key)
    if one.unit and other.unit:
        if one.unit == other.unit:
            near = abs(one.size - other.size) <= _CLOSE * max(one.size, other.size)
            return (1.0 if one.value == other.value else 0.9) if near else 0.0
        return 0.3 if one.value == other.value else 0.0
    return (1.0 if one.unit == other.unit else 0.85) if one.value == other.value else 0.0


def _plain(text: str) -> str:
    """Return ``text`` in small letters and plain marks; places stay as they are."""
    return "".join(_MARKS.get(c, c if len(c.lower()) > 1 else c.lower()) for c in text)


def _value(digits: str) -> float:
    head, dot, tail = digits.rpartition(".")
    if dot and len(tail) != 3:
        return float(head.replace(",", "").replace(".", "") + "." + tail)
    if digits.count(",") == 1 and len(digits.rpartition(",")[2]) != 3:
        return float(digits.replace(",", "."))
    plain = digits.replace(",", "")
    return float(plain) if plain.count(".") < 2 else float(plain.replace(".", ""))


def _number(value: float, word: str, start: int, end: int) -> Token:
    return Token(f"{value:g}", word, start, end, value)


def _spelled(words: str) -> float:
    """Return the number that "one hundred and twenty" spells."""
    total = 0
    for word in re.findall("[a-z]+", words):
        total = (total or 1) * 100 if word == "hundred" else total + _BELOW.get(word, 0)
    return float(total)


def _with_units(raw: list[Token], plain: str) -> tuple[Token, ...]:
    """Give numbers their units; what only tells those is no token any more."""
    units = english()["units"]
    out: list[Token] = []
    taken = -1  # the unit behind the last number
    for i, token in enumerate(raw):
        if i == taken:
            continue
        if token.value is None:
            is_behind_number = bool(out) and out[-1].value is not None
            if not _joins_numbers(raw, i, is_behind_number):
                out.append(token)
            continue
        unit, end = "", token.end
        if i + 1 < len(raw) and _is_unit(raw[i + 1], token, plain):
            taken, end = i + 1, raw[i + 1].end
            unit = {'"': "inch", "'": "feet"}.get(raw[taken].word, raw[taken].word)
        kind, size = units.get(unit, ("", 0.0))
        if not unit and i > 1 and raw[i - 1].word == "of" and _counts(raw[i - 2]):
            kind, size = "count", 1.0
        out.append(replace(token, end=end, unit=kind, size=token.value * size))
    return _spread(out, plain)


def _joins_numbers(raw: list[Token], i: int, is_behind_number: bool) -> bool:
    """Say whether a word only tells how numbers belong together: "pack of 3", "8 x 10"."""
    after = [token.value is not None for token in raw[i + 1 : i + 3]]
    if _counts(raw[i]) and len(after) == 2 and raw[i + 1].word == "of":
        return after[1]
    is_joint = raw[i].word in ("x", "by") and is_behind_number
    is_joint = is_joint or (raw[i].word == "of" and i > 0 and _counts(raw[i - 1]))
    return is_joint and bool(after) and after[0]


def _counts(token: Token) -> bool:
    """Say whether a word counts what comes behind it: "pack of 3"."""
    return bool(english()["units"].get(token.word, ("",))[0] == "count")


def _is_unit(following: Token, number: Token, plain: str) -> bool:
    """Say whether the word after a number is its unit; "in" is one only before no other word."""
    if following.word in ('"', "'"):
        return True
    if following.word not in english()["units"]:
        return False
    gap = plain[number.end : following.start]
    if following.word in ("in", "m", "w", "v", "g", "l"):
        rest = plain[following.end : following.end + 2]
        return gap == "" or (gap == " " and (not rest.strip() or rest[0] in ".,;)x"))
    return gap in ("", " ", "-")


def _spread(out: list[Token], plain: str) -> tuple[Token, ...]:
    """Give the numbers of "8 x 10 inch" the unit of the last."""
    for i in range(len(out) - 2, -1, -1):
        token, after = out[i], out[i + 1]
        is_joined = plain[token.end : after.start].strip() in ("x", "by")
        if token.value is not None and not token.unit and after.unit == "m" and is_joined:
            size = token.value * after.size / after.value if after.value else 0.0
            out[i] = replace(token, unit="m", size=size)
    return tuple(out)


def _is_glued(plain: str, start: int, end: int) -> bool:
    """Say whether a letter is part of a name such as "a01#black" or "b-purple", not of "women's"."""
    before, after = plain[max(0, start - 1) : start], plain[end : end + 1]
    beyond = plain[end + 1 : end + 2]
    return (
        after in tuple(_DIGITS)
        or before in tuple(_DIGITS)
        or before == "#"
        or (after in ("-", "#", "_", ".") and beyond.isalnum())
    )
