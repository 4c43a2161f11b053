"""Lucene's search in numpy: its English analysis, and BM25 with lossy lengths and ties by order.

The analysis is the standard tokenizer, possessives, lower case, stop words, and Porter's stemmer
(Snowball's, with what Lucene's does otherwise).
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
import regex
import Stemmer
from numpy.typing import NDArray

from stategate.stores.progress import Progress

_PORTER = Stemmer.Stemmer("porter", 0)
# Lucene has Porter's own program, which departs from his paper in places that ranks depend on: after a
# vowel and a consonant "bli" becomes "ble" and "logi" "log", words of two letters are left alone, and
# every doubled consonant but l, s and z falls to one.
_ADVERB = re.compile(
    r"(.*(?:[aeiou][^aeiou]|[^aeiou]y[^aeiou]).*)(?:(bl)|(log))(?:y(?:s|ed|ing)?|ies|ied|i)"
)
_DOUBLED = re.compile(r"(.*[aeiouy].*([chjkqvwx]))\2(?:ed|ings?)")


def stem(word: str) -> str:
    """Return the stem of ``word`` (lower case)."""
    if len(word) <= 2:
        return word
    if match := _ADVERB.fullmatch(word):
        word = f"{match[1]}{match[3] or 'ble'}"
    elif match := _DOUBLED.fullmatch(word):
        word = match[1]
    return str(_PORTER.stemWord(word))


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
