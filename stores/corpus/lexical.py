"""BM25 by bm25s: the words' half of hybrid retrieval, and of every ranking of candidates."""

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
_B = 0.75  # how much a long text is discounted
_GROWING_K1 = 1.5  # how much a word counts that a text says again


class Lexical:
    """Lucene's BM25 over ``texts`` in order, after ``tokenise``.

    ``repeats`` says whether a word that a query says twice counts twice.
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

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it tells a server's log all it does
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
        """Return up to ``k`` (place in ``texts``, score > 0), best first; ties by place."""
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable")[: max(k, 0)]
        return [(int(i), float(scores[i])) for i in order if scores[i] > 0]

    def save(self, folder: Path) -> None:
        """Keep the index in ``folder``, if there is any word in it: numpy arrays and JSON."""
        if self._index is not None:
            self._index.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> "Lexical":
        """Read what :meth:`save` kept. Raises ``OSError``, ``ValueError`` or ``KeyError``."""
        with require_extra("qa"):
            import bm25s

        lexical = cls(())
        lexical._index = bm25s.BM25.load(folder, show_progress=False)
        lexical.size = int(lexical._index.scores["num_docs"])
        return lexical


class GrowingLexical:
    """The same BM25 over texts that are added one by one: nothing is indexed again."""

    def __init__(self) -> None:
        self._places: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        self._lengths = array("i")
        self._total = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> None:
        """Add a text; its place is how many there were."""
        tokens = words(text)
        for token, count in Counter(tokens).items():
            self._places.setdefault(token, array("i")).append(len(self._lengths))
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
        lengths = np.array(self._lengths, dtype=float)  # a copy: arrays must be free to grow
        norm = _GROWING_K1 * (1 - _B + _B * lengths / mean)
        for token in set(words(query)) & self._places.keys():
            places = np.array(self._places[token])
            counts = np.array(self._counts[token], dtype=float)
            total[places] += self._rarity(token) * counts / (counts + norm[places])
        return total

    def coverage(self, query: str, groups: Sequence[Sequence[int]]) -> list[float]:
        """Return which share of the query's words, by rarity, each group of texts (places) holds."""
        rarities = {token: self._rarity(token) for token in set(words(query))}
        whole = sum(rarities.values())
        shares = []
        for places in groups:
            matched = [rarity for token, rarity in rarities.items() if self._holds(token, places)]
            shares.append(sum(matched) / whole if whole else 0.0)
        return shares

    def _rarity(self, token: str) -> float:
        size, count = len(self._lengths), len(self._places.get(token, ()))
        return float(np.log(1 + (size - count + 0.5) / (count + 0.5)))

    def _holds(self, token: str, places: Sequence[int]) -> bool:
        postings = self._places.get(token)
        if postings is None:
            return False
        positions = [bisect_left(postings, place) for place in places]
        return any(
            i < len(postings) and postings[i] == p for i, p in zip(positions, places, strict=True)
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
    """Return Snowball's stemmer of that name ("english", "porter")."""
    import Stemmer

    return Stemmer.Stemmer(algorithm)
