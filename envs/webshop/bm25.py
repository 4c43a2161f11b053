"""Lucene's search in numpy: its English analysis, and BM25 with lossy lengths and ties by order.

The analysis is the standard tokenizer, possessives, lower case, stop words, and Porter's stemmer as in
his own program, which departs from his paper (Porter, 1980) in three places that ranks depend on: words
of one or two letters are left alone, "bli" becomes "ble", and "logi" becomes "log".
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import numpy as np
import regex
from numpy.typing import NDArray

from stategate.stores.progress import Progress

#: Steps 2 and 3: suffix and what replaces it after a stem of at least one vowel-consonant sequence.
_DOUBLE = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_LATER = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
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
    match = _LAST_END.search(word)
    if match and _measure(word[: match.start()]) > 1:
        word = word[: match.start()]
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
    base = word[: len(word) - cut]
    if not cut or "v" not in _shape(base):
        return word
    if base.endswith(("at", "bl", "iz")):
        return f"{base}e"
    if len(base) > 1 and base[-1] == base[-2] and _shape(base)[-1] == "c":
        return base if base[-1] in "lsz" else base[:-1]
    return f"{base}e" if _measure(base) == 1 and _is_short(base) else base


def _replaced(word: str, ending: re.Pattern[str], by: Mapping[str, str]) -> str:
    match = ending.search(word)
    if match is None or _measure(word[: match.start()]) == 0:
        return word
    return word[: match.start()] + by[match.group()]


def _tidied(word: str) -> str:
    """Step 5: a last e, and the second of two l's."""
    if word.endswith("e"):
        base = word[:-1]
        size = _measure(base)
        if size > 1 or (size == 1 and not _is_short(base)):
            word = base
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


def _is_short(text: str) -> bool:
    """Say whether ``text`` ends consonant, vowel, consonant other than w, x, y."""
    return _shape(text).endswith("cvc") and text[-1] not in "wxy"


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


K1, B = 0.9, 0.4


class Bm25:
    """An inverted index over documents given in order (postings as arrays, one slice a term)."""

    def __init__(self, documents: Iterable[str], total: int = 0) -> None:
        """Index ``documents``; with a large ``total`` of them, behind a progress bar."""
        vocabulary: dict[str, int] = {}
        # Flat arrays: a million documents in lists of small arrays would take gigabytes more.
        terms, counts, sizes, lengths = array("i"), array("f"), array("i"), array("i")
        for document in Progress(documents, "index", total, unit="document", disable=not total):
            tally = Counter(analyze(document))
            terms.extend(vocabulary.setdefault(term, len(vocabulary)) for term in tally)
            counts.extend(tally.values())
            sizes.append(len(tally))
            lengths.append(sum(tally.values()))
        self.size = len(lengths)
        self._vocabulary = vocabulary
        flat = np.frombuffer(terms, np.int32)
        order = np.argsort(flat, kind="stable")
        owners = np.repeat(np.arange(self.size, dtype=np.int32), np.frombuffer(sizes, np.int32))
        frequency = np.frombuffer(counts, np.float32)[order]
        self._documents = owners[order]
        self._starts = np.concatenate(
            ([0], np.cumsum(np.bincount(flat, minlength=len(vocabulary))))
        )
        mean = np.float32(sum(lengths) / self.size) if self.size else np.float32(1)
        decoded = np.array([lossy_length(n) for n in lengths], dtype=np.float32)
        norm = np.float32(K1) * (np.float32(1 - B) + np.float32(B) * decoded / mean)
        # Lucene writes w * tf / (tf + norm) as w - w / (1 + tf / norm), in single precision.
        inverse = np.float32(1) / norm
        self._divisor = np.float32(1) + frequency * inverse[self._documents]

    def search(self, query: str, k: int = 50) -> list[tuple[int, float]]:
        """Return up to ``k`` (document, score) with a positive score, best first."""
        scores = np.zeros(self.size, dtype=np.float64)
        for term, times in Counter(analyze(query)).items():
            number = self._vocabulary.get(term)
            if number is None:
                continue
            start, stop = self._starts[number], self._starts[number + 1]
            frequency = stop - start
            idf = np.float32(math.log(1 + (self.size - frequency + 0.5) / (frequency + 0.5)))
            weight = np.float32(times) * idf
            scores[self._documents[start:stop]] += weight - weight / self._divisor[start:stop]
        return self._best(scores.astype(np.float32), k)

    def _best(self, scores: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        if k <= 0 or not self.size:
            return []
        hits = np.flatnonzero(scores > 0)
        if len(hits) > k:
            # Keep everything that ties with the k-th score, so that document order decides.
            cut = np.partition(scores[hits], len(hits) - k)[len(hits) - k]
            hits = hits[scores[hits] >= cut]
        order = np.argsort(-scores[hits], kind="stable")[:k]
        return [(int(hits[i]), float(scores[hits[i]])) for i in order]


def lossy_length(length: int) -> int:
    """Return ``length`` after Lucene's one-byte encoding: exact to 39, then four significant bits."""
    free = 24
    if length < free:
        return length
    excess = length - free
    shift = max(excess.bit_length() - 4, 0)
    return free + ((excess >> shift) << shift)
