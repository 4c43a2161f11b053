"""BM25: the lexical half of hybrid retrieval and of every ranking of candidates."""

import logging
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stategate.stores.errors import require_extra
from stategate.stores.progress import Progress

Tokenise = Callable[[str], list[str]]
_B = 0.75  # length normalisation; with k1 = 1.2 Lucene's defaults
_GROWING_K1 = 1.5  # term-frequency saturation


class Lexical:
    """Lucene's BM25 over ``texts`` in order, after ``tokenise``.

    ``repeats``: a word that a query says twice counts twice.
    """

    def __init__(
        self,
        texts: Sequence[str],
        tokenise: Tokenise | None = None,
        *,
        k1: float = 1.2,
        repeats: bool = True,
    ) -> None:
        with require_extra("qa"):
            import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs every step
        self.size = len(texts)
        self._tokenise = tokenise or words
        self._repeats = repeats
        tokens = [self._tokenise(text) for text in Progress(texts, "split into words", unit="text")]
        self._index: Any = None
        if any(tokens):
            self._index = bm25s.BM25(k1=k1, b=_B, method="lucene")
            self._index.index(tokens, show_progress=False)

    def scores(self, query: str) -> NDArray[np.float64]:
        """Return one score a text, in order, 0 where no word is shared."""
        terms = self._tokenise(query)
        terms = terms if self._repeats else sorted(set(terms))
        indexed = [] if self._index is None else [w for w in terms if w in self._index.vocab_dict]
        if not indexed:
            return np.zeros(self.size)
        return np.asarray(self._index.get_scores(indexed), dtype=float)

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return up to ``k`` (index in ``texts``, score > 0), best first; ties by index."""
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable")[: max(k, 0)]
        return [(int(i), float(scores[i])) for i in order if scores[i] > 0]

    def save(self, folder: Path) -> None:
        """Write the index to ``folder`` as numpy arrays and JSON; nothing where no text has a word."""
        if self._index is not None:
            self._index.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> "Lexical":
        """Read the index of :meth:`save`. Raises ``OSError``, ``ValueError`` or ``KeyError``."""
        with require_extra("qa"):
            import bm25s

        lexical = cls(())
        lexical._index = bm25s.BM25.load(folder, show_progress=False)
        lexical.size = int(lexical._index.scores["num_docs"])
        return lexical


class GrowingLexical:
    """BM25 over texts that are added one by one, without indexing again: postings are appended."""

    def __init__(self) -> None:
        self._postings: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._lengths = array("i")
        self._total = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> None:
        """Add a text; its index is the number of texts before it."""
        tokens = words(text)
        for token, count in Counter(tokens).items():
            self._postings.setdefault(token, array("i")).append(len(self._lengths))
            self._counts.setdefault(token, array("i")).append(count)
        self._lengths.append(len(tokens))
        self._total += len(tokens)

    def scores(self, query: str) -> NDArray[np.float64]:
        """Return one score a text, in order; a word that the query says twice counts once."""
        size = len(self._lengths)
        total = np.zeros(size)
        if not self._total:
            return total
        mean = self._total / size
        lengths = np.array(
            self._lengths, dtype=float
        )  # a copy: an array that shares its buffer cannot grow
        norm = _GROWING_K1 * (1 - _B + _B * lengths / mean)
        for token in set(words(query)) & self._postings.keys():
            indices = np.array(self._postings[token])
            counts = np.array(self._counts[token], dtype=float)
            total[indices] += self._rarity(token) * counts / (counts + norm[indices])
        return total

    def coverage(self, query: str, groups: Sequence[Sequence[int]]) -> list[float]:
        """Return the share of the query's words, weighted by rarity, that each group holds."""
        rarities = {token: self._rarity(token) for token in set(words(query))}
        total = sum(rarities.values())
        shares = []
        for indices in groups:
            matched = [rarity for token, rarity in rarities.items() if self._holds(token, indices)]
            shares.append(sum(matched) / total if total else 0.0)
        return shares

    def _rarity(self, token: str) -> float:
        size, count = len(self._lengths), len(self._postings.get(token, ()))
        return float(np.log(1 + (size - count + 0.5) / (count + 0.5)))

    def _holds(self, token: str, indices: Sequence[int]) -> bool:
        postings = self._postings.get(token)
        if postings is None:
            return False
        positions = [bisect_left(postings, index) for index in indices]
        return any(
            i < len(postings) and postings[i] == index
            for i, index in zip(positions, indices, strict=True)
        )


def words(text: str) -> list[str]:
    """Return the stems of ``text``'s words, in order, without the most common English ones."""
    kept_words = [w for w in re.findall(r"\w+", text.lower()) if w not in stop_words()]
    stems: list[str] = stemmer("english").stemWords(kept_words)
    return stems


@lru_cache(maxsize=1)
def stop_words() -> frozenset[str]:
    """Return the most common English words."""
    with require_extra("qa"):
        from bm25s.stopwords import STOPWORDS_EN_PLUS

    return frozenset(STOPWORDS_EN_PLUS)


@lru_cache(maxsize=2)
def stemmer(algorithm: str) -> Any:
    """Return a Snowball stemmer ("english", "porter")."""
    import Stemmer

    return Stemmer.Stemmer(algorithm)
