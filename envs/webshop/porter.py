"""Porter's stemmer as in his own program, and so in Lucene.

The program departs from his paper (Porter, 1980) in three places, each of which search ranks
depend on: words of one or two letters are left alone, "bli" becomes "ble", and "logi" becomes "log".
"""

import re
from collections.abc import Mapping

#: Steps 2 and 3: suffix and what replaces it after a stem of at least one vowel-consonant sequence.
_DOUBLE = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize",
    "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful",
    "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_LATER = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
#: Step 4: what falls off after two vowel-consonant sequences ("ion" only after s or t).
_LAST = (
    "al ance ence er ic able ible ant ement ment ent (?<=[st])ion ou ism ate iti ous ive ize"
).split()


def stem(word: str) -> str:
    """Return the stem of ``word`` (lower case)."""
    if len(word) <= 2:
        return word
    word = _inflected(_singular(word))
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = f"{word[:-1]}i"
    word = _replaced(word, _DOUBLE_END, _DOUBLE)
    word = _replaced(word, _LATER_END, _LATER)
    found = _LAST_END.search(word)
    if found and _measure(word[: found.start()]) > 1:
        word = word[: found.start()]
    return _tidied(word)


def _ending(suffixes: Mapping[str, str] | list[str]) -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(suffixes)})$")


# A search finds the leftmost match, which for endings is the longest one.
_DOUBLE_END, _LATER_END, _LAST_END = _ending(_DOUBLE), _ending(_LATER), _ending(_LAST)


def _singular(word: str) -> str:
    """Step 1a."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _inflected(word: str) -> str:
    """Step 1b: past forms and participles, and the repair of what they leave."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    cut = 2 if word.endswith("ed") else 3 if word.endswith("ing") else 0
    left = word[: len(word) - cut]
    if not cut or "v" not in _shape(left):
        return word
    if left.endswith(("at", "bl", "iz")):
        return f"{left}e"
    if _is_doubled(left):
        return left if left[-1] in "lsz" else left[:-1]
    return f"{left}e" if _measure(left) == 1 and _is_short(left) else left


def _replaced(word: str, ending: re.Pattern[str], by: Mapping[str, str]) -> str:
    found = ending.search(word)
    if found is None or _measure(word[: found.start()]) == 0:
        return word
    return word[: found.start()] + by[found.group()]


def _tidied(word: str) -> str:
    """Step 5: a last e, and the second of two l's."""
    if word.endswith("e"):
        left = word[:-1]
        size = _measure(left)
        if size > 1 or (size == 1 and not _is_short(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _shape(text: str) -> str:
    """Return ``text`` as consonants "c" and vowels "v"; y is a vowel after a consonant."""
    shape = ""
    for letter in text:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape


def _measure(text: str) -> int:
    """Return how many times a consonant follows a vowel: the paper's m."""
    return _shape(text).count("vc")


def _is_doubled(text: str) -> bool:
    return len(text) > 1 and text[-1] == text[-2] and _shape(text)[-1] == "c"


def _is_short(text: str) -> bool:
    """Say whether ``text`` ends consonant, vowel, consonant other than w, x, y."""
    return _shape(text).endswith("cvc") and text[-1] not in "wxy"
