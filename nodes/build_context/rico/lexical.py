"""The retrievers that RICO is compared and fused with: BM25 over the candidates, and an embedder."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envs.webshop.porter import stem
from nodes.protocols import Embedder

Scores = NDArray[np.float64]


def tokenize(text: str, *, stemmed: bool = False) -> list[str]:
    """Return the lower-case words of two or more letters; without stop words, stemmed, if so asked."""
    words = re.findall(r"\w\w+", text.lower())
    if not stemmed:
        return words
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return [stem(word) for word in words if word not in STOPWORDS_EN_PLUS]


class Bm25:
    """BM25 (k1 1.5, b 0.75) over some texts; the rarity of a word is that within these texts.

    ``stemmed`` drops English stop words and stems the rest (Porter).
    """

    def __init__(self, texts: Sequence[str], *, stemmed: bool = False) -> None:
        self._stemmed = stemmed
        self._count = len(texts)
        words = [tokenize(text, stemmed=stemmed) for text in texts]
        self._index = None
        if any(words):
            import bm25s

            self._index = bm25s.BM25(k1=1.5, b=0.75)
            self._index.index(words, show_progress=False)

    def scores(self, question: str) -> Scores:
        """Return one score a text, 0 where no word is shared."""
        words = sorted(set(tokenize(question, stemmed=self._stemmed)))
        if self._index is None or not words:
            return np.zeros(self._count)
        known = [word for word in words if word in self._index.vocab_dict]
        if not known:
            return np.zeros(self._count)
        return np.asarray(self._index.get_scores(known), dtype=float)


def bm25(question: str, texts: Sequence[str], *, stemmed: bool = False) -> Scores:
    """Score the candidates of one question."""
    return Bm25(texts, stemmed=stemmed).scores(question)


def cosine(embedder: Embedder, question: str, texts: Sequence[str]) -> Scores:
    """Score the candidates of one question by the cosine of embeddings."""
    if not texts:
        return np.zeros(0)
    rows = embedder.embed([question, *texts])
    return np.asarray(rows[1:] @ rows[0], dtype=float)
