"""Any text as tokens that compare: stems, numbers with their units, sizes in one spelling."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from stategate.language.words import CARDINALS
from stategate.stores.text import stem

#: Letter sizes come first, in one spelling: "xx-large", "xxl", "2xl" and "2x-large" are one token.
_TOKEN = re.compile(
    r"(?P<size>\b(?:(?P<xs>x{1,6})|(?P<count>\d{1,2})[ -]?x|extra(?![ls]\b))[ -]?"
    r"(?P<letter>large|small|l|s)\b)"
    r"|[0-9]+(?:[.,][0-9]+)*|[^\W\d_]+|[$€£<>\"']"
)
_NUMBERS = {"zero": 0, **CARDINALS, "dozen": 12}
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
        word = found[0]
        if found["size"]:
            count = int(found["count"]) if found["count"] else len(found["xs"] or "x")
            which = "large" if found["letter"].startswith("l") else "small"
            name = f"{count}x{which}"
            raw.append(Token(name, name, found.start(), found.end()))
        elif word[0] == "0" and word.isdecimal() and len(word) > 1:
            raw.append(Token(word, word, found.start(), found.end()))  # a code, not an amount
        elif word[0] in _DIGITS:
            raw.append(_number(_value(word), word, found.start(), found.end()))
        elif word in _NUMBERS:
            raw.append(_number(float(_NUMBERS[word]), word, found.start(), found.end()))
        else:
            glued = len(word) == 1 and _is_glued(plain, found.start(), found.end())
            raw.append(Token(stem(word), word, found.start(), found.end(), is_glued=glued))
    return _with_units(_joined(raw, plain), plain)


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


def _joined(raw: list[Token], plain: str) -> list[Token]:
    """Join number words and what multiplies: "twenty five", "one hundred and twenty", "$2k"."""
    joined: list[Token] = []
    for token in raw:
        last = joined[-1] if joined else None
        if last is not None and last.value is not None and _is_digit(last):
            of_money = plain[max(0, last.start - 1) : last.start] in tuple("$€£")
            if token.word == "k" and token.start == last.end and of_money:  # $1.5k
                joined[-1] = _number(last.value * 1000, last.word, last.start, token.end)
                continue
        if last is not None and last.value is not None and not _is_digit(last):
            value = last.value
            between = plain[last.end : token.start].strip(" -")
            if token.word == "hundred" and not between and value < 10:
                joined[-1] = _number(value * 100, last.word, last.start, token.end)
                continue
            is_tail = token.value is not None and not _is_digit(token)
            if (
                is_tail
                and between == ""
                and token.value is not None
                and (
                    (value in range(20, 100, 10) and token.value < 10)
                    or (value % 100 == 0 and value)
                )
            ):
                joined[-1] = _number(value + token.value, last.word, last.start, token.end)
                continue
        if token.value is not None and token.value < 100 and len(joined) > 1:
            hundred = joined[-2].value or 0.0
            if (
                joined[-1].word == "and"
                and hundred
                and hundred % 100 == 0
                and not _is_digit(joined[-2])
            ):
                joined[-2:] = [
                    _number(hundred + token.value, joined[-2].word, joined[-2].start, token.end)
                ]
                continue
        if token.word == "hundred" and (last is None or last.value is None):
            token = _number(100.0, "hundred", token.start, token.end)
        joined.append(token)
    return joined


def _with_units(raw: list[Token], plain: str) -> tuple[Token, ...]:
    units = english()["units"]
    out: list[Token] = []
    skip = False
    for i, token in enumerate(raw):
        if skip:
            skip = False
            continue
        if token.value is None:
            # "pack of 3": the unit stands before
            of = raw[i + 1].word == "of" if i + 2 < len(raw) else False
            if of and _counts(token) and raw[i + 2].value is not None:
                continue
            is_before_number = i + 1 < len(raw) and raw[i + 1].value is not None
            if token.word == "of" and i and is_before_number and _counts(raw[i - 1]):
                continue
            after_number = bool(out) and out[-1].value is not None
            if token.word in ("x", "by") and after_number and is_before_number:
                continue  # 8 x 10
            out.append(token)
            continue
        unit, end = "", token.end
        following = raw[i + 1] if i + 1 < len(raw) else None
        if following is not None and following.word in ('"', "'"):
            unit, skip, end = ("inch" if following.word == '"' else "feet"), True, following.end
        elif following is not None and _is_unit(following, raw, i, plain):
            unit, skip, end = following.word, True, following.end
        kind, size = units.get(unit, ("", 0.0))
        if not unit and i > 1 and raw[i - 1].word == "of" and _counts(raw[i - 2]):
            kind, size = "count", 1.0
        out.append(
            Token(token.key, token.word, token.start, end, token.value, kind, token.value * size)
        )
    return _spread(out, plain)


def _counts(token: Token) -> bool:
    """Say whether a word counts what comes behind it: "pack of 3"."""
    return bool(english()["units"].get(token.word, ("",))[0] == "count")


def _is_unit(following: Token, raw: list[Token], i: int, plain: str) -> bool:
    """Say whether the word after a number is its unit; "in" is one only before no other word."""
    if following.word not in english()["units"]:
        return False
    gap = plain[raw[i].end : following.start]
    if following.word in ("in", "m", "w", "v", "g", "l"):
        rest = plain[following.end : following.end + 2]
        return gap == "" or (gap == " " and (not rest.strip() or rest[0] in ".,;)x"))
    return gap in ("", " ", "-")


def _spread(out: list[Token], plain: str) -> tuple[Token, ...]:
    """Give the numbers of "8 x 10 inch" the unit of the last."""
    for i in range(len(out) - 2, -1, -1):
        token, after = out[i], out[i + 1]
        between = plain[token.end : after.start].strip()
        if (
            token.value is not None
            and not token.unit
            and after.unit == "m"
            and between in ("x", "by")
        ):
            size = token.value * after.size / after.value if after.value else 0.0
            out[i] = Token(token.key, token.word, token.start, token.end, token.value, "m", size)
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


def _is_digit(token: Token) -> bool:
    return token.word[0] in _DIGITS
