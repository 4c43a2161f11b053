"""Text as comparable tokens: stems, numbers in digits or words, units, sizes; and prices.

One reader of amounts for everything that reads English: "eight and a half" is 8.5, "xxl" and
"xx-large" are one token, "$9.000,00" is 9000, 10 inches are 0.254 m.
"""

import math
import re
import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from stategate.language.words import CARDINALS, stem

_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_SMALL, _CURRENCIES = frozenset(_LISTS["small"]), frozenset(_LISTS["currencies"])
_SIGNS = frozenset("$€£")
LETTER_SIZES: dict[str, str] = _LISTS["sizes"]
#: The dimension of each unit, and how many of the dimension's base unit it is.
_UNIT_SIZES: dict[str, tuple[str, float]] = {
    unit: (kind, float(size)) for unit, (kind, size) in _LISTS["units"].items()
}
_COUNTERS = frozenset(unit for unit, (kind, _) in _UNIT_SIZES.items() if kind == "count")
_BELOW = {"zero": 0, **CARDINALS, "dozen": 12, "fiver": 5, "tenner": 10}  # a hundred
_TIMES = {"dozen": 12, "hundred": 100, "thousand": 1000, "grand": 1000}
_SEVERAL = {"couple": 2, "twin": 2, "double": 2, "triple": 3}
_THOUSAND = "(?:thousand|grand)"
_UNITS, _TEENS, _TENS = ("|".join(list(CARDINALS)[i:j]) for i, j in ((0, 9), (9, 19), (19, 27)))
_FROM_20 = rf"(?:{_TENS})(?:[ -](?:{_UNITS}))?"
_SPELLED = rf"(?:(?:{_TENS})[ -]+(?:{_UNITS})|{'|'.join(_BELOW)})"
_A = "a(?: couple(?: of)?)?"
_HUNDREDS = (
    rf"(?:(?:(?:{_UNITS}|{_A})[ -]+)?hundred(?:[ -]+(?:and[ -]+)?{_SPELLED})?|{_SPELLED}"
    r"(?:[ -]+(?:hundred|dozen))?)"
)
#: "four-fifty" and "two-twenty-five" are 450 and 225, so is "four fifty" before no thing that may be
#: counted; "two twenty-ounce mugs" are two mugs. "nineteen fifty" and "twenty ninety-nine" are prices.
_COUNTS_NOTHING = r"(?: ?(?:[.,;:!?)]|$)| (?:and|or|to|as|max|tops)\b)"
_CURRENCY = rf"(?: ?(?:{'|'.join(map(re.escape, _CURRENCIES))})(?![^\W\d_]))"
_SHORT = (
    rf"(?:{_UNITS})(?:-| (?={_FROM_20}{_COUNTS_NOTHING})){_FROM_20}"
    rf"|(?:(?:{_TEENS}|(?:{_TENS})[ -](?:{_UNITS})) {_FROM_20}|(?:{_TENS}) (?:{_TENS})[ -](?:{_UNITS}))"
    rf"(?={_COUNTS_NOTHING}|{_CURRENCY})"
)
#: An amount with its cents: "$19 and 99 cents", "a buck fifty"; "20 dollars 50 pens" are fifty pens.
_CENT = "|".join(unit for unit, (kind, _) in _UNIT_SIZES.items() if kind == "money")
_TWO_DIGITS = rf"(?:[0-9]{{2}}|{_TEENS}|{_FROM_20})"
_CENTS = rf"(?:{_TWO_DIGITS}|[0-9]|{_UNITS}) ?(?:{_CENT})(?![^\W\d_])"
_NO_THING = rf"(?:{_COUNTS_NOTHING}| (?:{'|'.join(_SMALL - _UNIT_SIZES.keys())})\b)"
_WITH_CENTS = (
    rf"(?:(?<![^\W_])(?P<whole>{_HUNDREDS}|a|[0-9]+) (?:{'|'.join(_CURRENCIES - _SIGNS)})"
    rf"|(?<=[$€£])(?P<signed>[0-9]+))(?: and(?= {_CENTS}))?"
    rf" (?P<cents>{_CENTS}|{_TWO_DIGITS}(?={_NO_THING}))"
)
_HALF_A = rf"half an?(?: (?:hundred|dozen|{_THOUSAND})|(?=[ -](?:{'|'.join(_UNIT_SIZES)})\b))"
_AND_A_HALF = "[ -]and[ -]a[ -]half"
#: Thousands are also set apart by an apostrophe; by a space only where it is surely money.
_APART = "[0-9]{{1,3}}(?:[{}][0-9]{{3}})+(?![0-9])(?:[.,][0-9]+)?"
_SPACED = _APART.format(" \u00a0\u2009\u202f")
_DIGITS_RUN = (
    rf"{_APART.format(chr(39))}|(?:(?<=[$€£])|(?<=[$€£]\s)){_SPACED}(?={_COUNTS_NOTHING})"
    rf"|{_SPACED}(?={_CURRENCY})"
    r"|(?<=[$€£])\.[0-9]+|[0-9]+(?:[.,][0-9]+)*"
)
#: Letter sizes come first, in one spelling: "xx-large", "xxl", "2xl" and "2x-large" are one token.
_TOKEN = re.compile(
    rf"{_WITH_CENTS}|"
    r"(?P<size>\b(?:(?P<xs>x{1,6})|(?P<count>\d{1,2}|double|triple)[ -]?x|extra(?![ls]\b))[ -]?"
    r"(?P<letter>large|small|l|s)\b)"
    rf"|(?P<spelled>(?<![^\W\d_])(?:{_HALF_A}|(?:twin|double|triple)(?=[ -]packs?\b)"
    rf"|(?:{_SPELLED}|{_A})[ -]+{_THOUSAND}(?:[ -]+(?:and[ -]+)?{_HUNDREDS})?|{_SHORT}"
    rf"|{_HUNDREDS})(?:{_AND_A_HALF})?(?![^\W\d_]))"
    rf"|(?P<digits>{_DIGITS_RUN})(?:[ -](?P<times>{'|'.join(_TIMES)})(?![^\W\d_])"
    rf"|(?P<half>{_AND_A_HALF}))?|[^\W\d_]+|[$€£¢<>\"']"
)
_MARKS = {"’": "'", "“": '"', "”": '"', "″": '"', "×": "x", "≤": "<", "≥": ">"}
_DIGITS = frozenset("0123456789")
_CLOSE = 0.015  # relative difference of amounts that are the same in other units


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a number of a text: ``text[start:end]``.

    ``key`` is what compares: a stem, or a number's digits. ``value`` is the number, ``unit`` its
    dimension ("" where none is named), ``size`` how much it is in that dimension's base unit.
    ``is_joined`` where it is an amount with its cents.
    """

    key: str
    word: str
    start: int
    end: int
    value: float | None = None
    unit: str = ""
    size: float = 0.0
    is_glued: bool = False
    is_joined: bool = False

    @property
    def money(self) -> float:
        """How much it is as a price, in dollars."""
        return self.size if self.unit == "money" else self.value or 0.0

    @property
    def is_small(self) -> bool:
        """Whether it is a word that says nothing of what a text is about.

        One letter that is glued to others ("a-blue", "b#1") is part of a name.
        """
        is_amount = bool(self.unit) or self.value not in (None, 1)  # "one" alone is a pronoun
        if is_amount or (self.is_glued and self.word.isalpha()):
            return False
        return self.word in _SMALL or (self.value is None and not self.word.isalnum())


@lru_cache(maxsize=65536)
def tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of ``text``, in order; a unit belongs to the number before it."""
    plain = with_plain_marks(text)
    raw: list[Token] = []
    for match in _TOKEN.finditer(plain):
        word, (start, end) = match[0], match.span()
        if match["cents"]:
            whole = match["whole"] or match["signed"]
            value = round((_spelled(whole) or 1) + _spelled(match["cents"]) / 100, 2)
            raw.append(replace(_number(value, whole, start, end), is_joined=True))
        elif match["size"]:
            count = _SEVERAL.get(match["count"]) or int(match["count"] or len(match["xs"] or "x"))
            name = f"{count}x{'large' if match['letter'].startswith('l') else 'small'}"
            raw.append(Token(name, name, start, end))
        elif match["spelled"]:
            first = re.split("[ -]", re.sub("^(?:half )?an? ", "", word))[0]
            raw.append(_number(_spelled(word), first, start, end))
        elif word[0] == "0" and word.isdecimal() and len(word) > 1:
            raw.append(Token(word, word, start, end))  # a code, not an amount
        elif match["digits"]:
            word = match["digits"]
            value = number_value(word) * _TIMES.get(match["times"], 1) + 0.5 * bool(match["half"])
            is_money = plain[max(start - 2, 0) : start].strip()[-1:] in _SIGNS or "." in word
            if is_money and re.match(r"k(?![^\W\d_])", plain[end:]):
                value, end = value * 1000, end + 1  # $2k, 1.5k
            raw.append(_number(value, word, start, end))
        elif word in LETTER_SIZES and raw and raw[-1].key == stem("size"):
            raw.append(Token(stem(LETTER_SIZES[word]), LETTER_SIZES[word], start, end))
        elif not raw or start >= raw[-1].end:
            is_glued = len(word) == 1 and _is_glued(plain, start, end)
            raw.append(Token(stem(word), word, start, end, is_glued=is_glued))
    return _with_units(raw, plain)


def content(text: str) -> tuple[Token, ...]:
    """Return the tokens of ``text`` without function words and marks."""
    return tuple(token for token in tokens(text) if not token.is_small)


def prices_in(text: str) -> tuple[float, ...]:
    """Return the finite amounts that a text names, in order: "$1 - $9.000,00" → (1, 9000)."""
    amounts = (token.money for token in tokens(text) if token.value is not None)
    return tuple(amount for amount in amounts if math.isfinite(amount))


def price_range(tag: str) -> tuple[float, ...]:
    """Return the price that a tag names, or the ends of its range; () where it is neither.

    "2 for $5", "$12 (was $20)" and "-5" are neither.
    """
    words = [token for token in tokens(tag) if token.word not in _CURRENCIES]
    shape = ["#" if token.value is not None else token.word for token in words]
    is_price = shape.count("#") == 1 or shape in (["#", "#"], ["#", "to", "#"])
    is_odd = any(token.unit not in ("", "money") for token in words) or tag.strip("$€£ ")[:1] == "-"
    return prices_in(tag) if is_price and not is_odd else ()


def same(one: Token, other: Token) -> float:
    """Return how far (0 to 1) two tokens are the same word, or the same amount."""
    if one.value is None or other.value is None:
        return float(one.key == other.key)
    if one.unit and other.unit:
        if one.unit == other.unit:
            is_close = abs(one.size - other.size) <= _CLOSE * max(one.size, other.size)
            return (1.0 if one.value == other.value else 0.9) if is_close else 0.0
        return 0.3 if one.value == other.value else 0.0
    return (1.0 if one.unit == other.unit else 0.85) if one.value == other.value else 0.0


def number_value(digits: str) -> float:
    """Return the number that digits with points and commas write, in English or continental form."""
    digits = "".join(c for c in digits if c.isdecimal() or c in ".,")
    marks = [c for c in digits if c in ".,"]
    head, mark, tail = digits.rpartition(marks[-1]) if marks else (digits, "", "")
    # "1.500" is English.
    is_thousands = len(tail) == 3 and len(set(marks)) == 1 and marks != ["."]
    if marks.count(mark) != 1 or is_thousands:
        head, tail = digits, ""
    return float(head.replace(",", "").replace(".", "") + "." + tail)


def with_plain_marks(text: str) -> str:
    """Return ``text`` in small letters and plain marks; places stay as they are."""
    return "".join(_MARKS.get(c, c if len(c.lower()) > 1 else c.lower()) for c in text)


def _number(value: float, word: str, start: int, end: int) -> Token:
    return Token(f"{value:g}", word, start, end, value)


def _spelled(words: str) -> float:
    """Return the number that "one hundred and twenty", "four-fifty" or "eight and a half" spells."""
    if words[0] in _DIGITS:
        return number_value(words)
    whole = re.sub(f"{_AND_A_HALF}$", "", words)
    total, part, of = 0.5 * (whole != words), 0.5 * words.startswith("half "), 1
    for word in re.findall("[a-z]+", whole):
        value = _BELOW.get(word, _SEVERAL.get(word, 0))
        if word in ("thousand", "grand"):
            total, part = total + (part or 1) * 1000, 0.0
        elif word in _TIMES:
            part = (part or 1) * _TIMES[word]
        elif value >= 20 and 10 <= part < 100:  # "nineteen fifty" is 19.50
            total, part, of = total + part, value, 100
        else:
            part = part * (100 if value >= 20 and 0 < part < 10 else 1) + value
    return total + part / of


def _with_units(raw: list[Token], plain: str) -> tuple[Token, ...]:
    """Give numbers their units; what only tells those is no token any more."""
    out: list[Token] = []
    unit_index = -1  # the unit behind the last number
    for i, token in enumerate(raw):
        if i == unit_index:
            continue
        if token.value is None:
            is_behind_number = bool(out) and out[-1].value is not None
            if not _joins_numbers(raw, i, is_behind_number):
                out.append(token)
            continue
        unit, end = "", token.end
        if i + 1 < len(raw) and _is_unit(raw[i + 1], token, plain):
            unit_index, end = i + 1, raw[i + 1].end
            unit = {'"': "inch", "'": "feet"}.get(raw[unit_index].word, raw[unit_index].word)
        kind, size = _UNIT_SIZES.get(unit, ("", 0.0))
        if not unit and i > 1 and raw[i - 1].word == "of" and raw[i - 2].word in _COUNTERS:
            kind, size = "count", 1.0
        out.append(replace(token, end=end, unit=kind, size=token.value * size))
    return _spread(out, plain)


def _joins_numbers(raw: list[Token], i: int, is_behind_number: bool) -> bool:
    """Say whether a word only tells how numbers belong together: "pack of 3", "8 x 10"."""
    after = [token.value is not None for token in raw[i + 1 : i + 3]]
    if raw[i].word in _COUNTERS and len(after) == 2 and raw[i + 1].word == "of":
        return after[1]
    is_joint = raw[i].word in ("x", "by") and is_behind_number
    is_joint = is_joint or (raw[i].word == "of" and i > 0 and raw[i - 1].word in _COUNTERS)
    return is_joint and bool(after) and after[0]


def _is_unit(following: Token, number: Token, plain: str) -> bool:
    """Say whether the word after a number is its unit; "in" is one only before no other word."""
    if following.word in ('"', "'"):
        return number.word[0] in _DIGITS
    if following.word not in _UNIT_SIZES:
        return False
    gap = plain[number.end : following.start]
    if following.word in ("in", "m", "w", "v", "g", "l"):
        after = plain[following.end : following.end + 2]
        if gap == "":
            return True
        return gap == " " and (not after.strip() or after[0] in ".,;)x")
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
