"""Scores of candidates by words, embeddings and rerankers, and several rankings made one."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stategate.nodes.protocols import Embedder
from stategate.stores.corpus.lexical import Lexical, stemmer, stop_words

Scores = NDArray[np.float64]


def bm25_over(texts: Sequence[str], *, stemmed: bool = False) -> Lexical:
    """Return BM25 over the candidates alone: a word is as rare as it is among them.

    ``stemmed`` stems words (Porter) and drops English stop words. A word that a question says twice
    counts once.
    """

    def tokens(text: str) -> list[str]:
        words = re.findall(r"\w\w+", text.lower())
        terms = [word for word in words if not stemmed or word not in stop_words()]
        return list(stemmer("porter").stemWords(terms)) if stemmed else terms

    return Lexical(texts, tokens, k1=1.5, repeats=False)


def cosine(embedder: Embedder, question: str, texts: Sequence[str]) -> Scores:
    """Score the candidates of one question by the cosine of embeddings."""
    if not texts:
        return np.zeros(0)
    rows = embedder.embed([question, *texts])
    return np.asarray(rows[1:] @ rows[0], dtype=float)


def z_scores(scores: Sequence[float] | Scores) -> Scores:
    """Return scores with mean 0 and deviation 1; all zeros where they do not differ."""
    values = np.asarray(scores, dtype=float)
    if not len(values):
        return values
    deviation = values.std()
    if not np.isfinite(deviation) or deviation < 1e-12:
        return np.zeros_like(values)
    return np.asarray((values - values.mean()) / deviation)


def fuse(scores: Sequence[Sequence[float] | Scores]) -> Scores:
    """Return the sum of the z-scores of several rankers."""
    return np.asarray(np.sum([z_scores(row) for row in scores], axis=0))


def fuse_places(rankings: Sequence[Mapping[int, float]]) -> list[tuple[int, float]]:
    """Fuse rankings of different candidates by the sum of their z-scores, best first.

    A candidate that a ranking lacks gets its lowest score; ties keep the lower index.
    """
    indices = sorted({index for scores in rankings for index in scores})
    lowest = [min(scores.values()) if scores else 0.0 for scores in rankings]
    rows = [
        [scores.get(index, low) for index in indices]
        for scores, low in zip(rankings, lowest, strict=True)
    ]
    fused = fuse(rows)
    return [(indices[i], float(fused[i])) for i in np.argsort(-fused, kind="stable")]
