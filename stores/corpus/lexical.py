"""BM25: the lexical half of hybrid retrieval, of memory and of every ranking of candidates."""

import re
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stategate.stores.progress import Progress

_B = 0.75  # length normalisation; with k1 = 1.2 Lucene's defaults


class Lexical:
    """Lucene's BM25 over ``texts`` in order, after ``tokenise``, and over what is added to them.

    ``k1`` saturates a word's frequency. ``repeats``: a word that a query says twice counts twice.
    """

    def __init__(
        self,
        texts: Sequence[str] = (),
        tokenise: Callable[[str], list[str]] | None = None,
        *,
        k1: float = 1.2,
        repeats: bool = True,
    ) -> None:
        self._tokenise, self._k1, self._repeats = tokenise or words, k1, repeats
        #: By word: the texts that hold it, ascending, and how often each does.
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._lengths = array("i")
        self._total = 0
        for text in Progress(texts, "split into words", unit="text", disable=not texts):
            self.add(text)

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> None:
        """Add a text; its index is the number of texts before it."""
        tokens = self._tokenise(text)
        for token, count in Counter(tokens).items():
            places, counts = self._postings.setdefault(token, (array("i"), array("i")))
            places.append(len(self))
            counts.append(count)
        self._lengths.append(len(tokens))
        self._total += len(tokens)

    def scores(self, query: str) -> NDArray[np.float64]:
        """Return one score a text, in order, 0 where no word is shared."""
        total = np.zeros(len(self))
        if not self._total:
            return total
        # Copies: an array that shares its buffer cannot grow.
        relative = np.array(self._lengths) * len(self) / self._total
        norm = self._k1 * (1 - _B + _B * relative)
        for token, times in Counter(self._tokenise(query)).items():
            if token in self._postings:
                places, counts = map(np.array, self._postings[token])
                weight = self._rarity(token) * (times if self._repeats else 1)
                total[places] += weight * counts / (counts + norm[places])
        return total

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return up to ``k`` (index in ``texts``, score > 0), best first; ties by index."""
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable")[: max(k, 0)]
        return [(int(i), float(scores[i])) for i in order if scores[i] > 0]

    def coverage(self, query: str, groups: Sequence[Sequence[int]]) -> list[float]:
        """Return the share of the query's words, weighted by rarity, that each group holds."""
        tokens = list(set(self._tokenise(query)))
        weights = np.array([self._rarity(token) for token in tokens])
        held = np.zeros((len(tokens), len(self)), bool)
        for row, token in zip(held, tokens, strict=True):
            if token in self._postings:
                row[np.array(self._postings[token][0])] = True
        total = float(weights.sum()) or 1.0
        return [float(weights @ held[:, group].any(axis=1)) / total for group in map(list, groups)]

    def _rarity(self, token: str) -> float:
        count = len(self._postings[token][0]) if token in self._postings else 0
        return float(np.log(1 + (len(self) - count + 0.5) / (count + 0.5)))

    def to_json(self) -> dict[str, Any]:
        """Return the index of texts that were split by :func:`words` as values that JSON takes."""
        postings = {
            word: [b64encode(numbers).decode() for numbers in own]
            for word, own in self._postings.items()
        }
        return {"lengths": b64encode(self._lengths).decode(), "postings": postings}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Lexical":
        """Return the index of :meth:`to_json`. Raises one of ``errors.UNREADABLE``."""
        lexical = cls()
        lexical._lengths = array("i", b64decode(kept["lengths"]))
        lexical._total = sum(lexical._lengths)
        for word, own in kept["postings"].items():
            places, counts = (array("i", b64decode(numbers)) for numbers in own)
            lexical._postings[word] = places, counts
        return lexical


def words(text: str) -> list[str]:
    """Return the stems of ``text``'s words, in order, without the most common English ones."""
    kept_words = [w for w in re.findall(r"\w+", text.lower()) if w not in stop_words()]
    stems: list[str] = stemmer("english").stemWords(kept_words)
    return stems


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    """Return the most common English words."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)


@lru_cache(maxsize=2)
def stemmer(algorithm: str) -> Any:
    """Return a Snowball stemmer ("english", "porter")."""
    import Stemmer

    return Stemmer.Stemmer(algorithm)
