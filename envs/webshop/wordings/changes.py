"""What families do to a whole text: slips of the keyboard, other units, small letters."""

import random
import re
from collections.abc import Callable

from stategate.language.words import CARDINALS

_WORDS = {0: "zero"} | {value: word for word, value in CARDINALS.items()}
_SLIPS = 0.22  # share of longer words that are mistyped
_LONG = 4
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_PLAIN = re.compile(r"[A-Za-z]{4,}")
#: How units are written otherwise: each match becomes one of the alternatives.
_UNITS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), others)
    for pattern, others in (
        (r"\bxx-large\b", ("xxl", "2xl", "2x-large")),
        (r"\bx-large\b", ("xl", "extra large")),
        (r"\bx-small\b", ("xs", "extra small")),
        (r"\b(\d)x-large\b", (r"\1xl", r"\1x large")),
        (r"\bfl oz\b", ("fluid ounces", "fl. oz.")),
        (r"(?<=\d) ?\b(?:ounce|oz)\b", (" oz", " ounces", "oz")),
        (r"(?<=\d) ?\binch(?:es)?\b", ('"', " inches", " in.", "in")),
        (r"(?<=\d)\"", (" inch", " inches")),
        (r"(?<=\d) ?\b(?:feet|foot|ft)\b", (" ft", " feet", "-foot")),
        (r"(?<=\d) ?\bpounds?\b", (" lb", " lbs")),
        (r"\(?pack of (\d+)\)?", (r"\1 pack", r"\1-pack", r"set of \1")),
        (r"(?<=\d) ?x ?(?=\d)", (" by ", " x ", "x")),
        (r"\b(\d+)[ -]?(?:pcs|pieces|count)\b", (r"\1 pieces", r"\1 pcs", r"\1 count")),
    )
)


def in_words(number: int) -> str:
    """Return ``number`` (0 to 999) in English words, larger ones in digits."""
    if number in _WORDS:
        return _WORDS[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return f"{_WORDS[10 * tens]}-{_WORDS[ones]}"
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_WORDS[hundreds]} hundred" + (f" and {in_words(rest)}" if rest else "")
    return str(number)


def mistyped(text: str, rng: random.Random) -> str:
    """Return ``text`` with slips in its longer words; words with digits stay."""

    def slip(found: re.Match[str]) -> str:
        word = found[0]
        if rng.random() >= _SLIPS:
            return word
        i = rng.randrange(1, len(word) - 1)
        kind = rng.randrange(4)
        if kind == 0:  # two letters change places
            return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        if kind == 1:  # one is left out
            return word[:i] + word[i + 1 :]
        if kind == 2:  # one is typed twice
            return word[:i] + word[i] + word[i:]
        return word[:i] + _beside(word[i], rng) + word[i + 1 :]

    return _PLAIN.sub(slip, text)


def _beside(letter: str, rng: random.Random) -> str:
    row = next((keys for keys in _KEYS if letter.lower() in keys), "")
    i = row.find(letter.lower())
    near = [row[j] for j in (i - 1, i + 1) if 0 <= j < len(row)] or [letter]
    return rng.choice(near)


def other_units(text: str, rng: random.Random) -> str:
    """Return ``text`` with its units and sizes written in other ways."""
    for pattern, others in _UNITS:
        text = pattern.sub(lambda found, o=others: found.expand(rng.choice(o)), text)  # type: ignore[misc]
    return text


#: Everyday words and others for the same. Families of one split never use those of the next.
_SYNONYMS: dict[str, dict[str, str]] = {
    "synonyms": {
        "grey": "gray",
        "large": "big",
        "women": "ladies",
        "women's": "ladies'",
        "kids": "children",
        "sofa": "couch",
        "pants": "trousers",
        "sneakers": "trainers",
        "multicolor": "colorful",
        "beige": "cream",
        "dresser": "cupboard",
        "heavy": "weighty",
        "easy": "simple",
        "fast": "quick",
        "carrying": "transport",
        "bag": "pouch",
        "round": "circular",
        "bundle": "set",
        "couple": "pair",
    },
    "more synonyms": {
        "gray": "grey",
        "small": "little",
        "men": "gents",
        "men's": "gents'",
        "couch": "sofa",
        "wood": "timber",
        "wooden": "timber",
        "shoes": "footwear",
        "coffee": "espresso",
        "rug": "carpet",
        "purple": "violet",
        "boys": "lads",
        "dark": "deep",
        "soft": "gentle",
        "strong": "sturdy",
        "machine wash": "washable",
        "light": "pale",
        "gift": "present",
    },
}


def _in_other_words(name: str) -> Callable[[str, random.Random], str]:
    words = _SYNONYMS[name]
    longest = sorted(map(re.escape, words), key=len, reverse=True)
    found = re.compile(rf"\b({'|'.join(longest)})(?![\w'])", re.IGNORECASE)
    return lambda text, rng: found.sub(lambda m: words[m[1].lower()], text)


def small_letters(text: str, rng: random.Random) -> str:
    """Return ``text`` without capitals."""
    return text.lower()


CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "typos": mistyped,
    "units": other_units,
    "lower": small_letters,
    **{name: _in_other_words(name) for name in _SYNONYMS},
}
