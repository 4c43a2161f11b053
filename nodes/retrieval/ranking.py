"""Scores of candidates by words and embeddings, and several rankings made one."""

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


def bm25(question: str, texts: Sequence[str], *, stemmed: bool = False) -> Scores:
    """Score the candidates of one question (see :func:`bm25_over`)."""
    return bm25_over(texts, stemmed=stemmed).scores(question)


def cosine(embedder: Embedder, question: str, texts: Sequence[str]) -> Scores:
    """Score the candidates of one question by the cosine of embeddings."""
    if not texts:
        return np.zeros(0)
    rows = embedder.embed([question, *texts])
    return np.asarray(rows[1:] @ rows[0], dtype=float)


def fuse(scores: Sequence[Sequence[float] | Scores]) -> Scores:
    """Return the sum of the z-scores of several rankers; one that tells nothing apart adds zeros."""
    rows = np.array(scores, dtype=float)
    if not rows.size:
        return np.zeros(0)
    above, deviations = rows - rows.mean(axis=1, keepdims=True), rows.std(axis=1, keepdims=True)
    is_apart = np.isfinite(deviations) & (deviations >= 1e-12)
    standard = np.divide(above, deviations, where=is_apart, out=np.zeros_like(rows))
    return np.asarray(standard.sum(axis=0))


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
