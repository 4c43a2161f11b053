"""Score fusion: scores of different scales, brought to one scale and added."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stores.errors import UserError

Scores = NDArray[np.float64]


def z_scores(scores: Sequence[float] | Scores) -> Scores:
    """Return scores with mean 0 and deviation 1; all zeros where they do not differ."""
    values = np.asarray(scores, dtype=float)
    if not len(values):
        return values
    deviation = values.std()
    if not np.isfinite(deviation) or deviation < 1e-12:
        return np.zeros_like(values)
    return np.asarray((values - values.mean()) / deviation)


def fuse(scores: Sequence[Sequence[float] | Scores], weights: Sequence[float] = ()) -> Scores:
    """Return the weighted sum of the z-scores of several rankers (weights of one if not given)."""
    factors = list(weights) or [1.0] * len(scores)
    if len(factors) != len(scores) or not scores:
        raise ValueError(f"{len(scores)} rankers and {len(factors)} weights")
    parts = [factor * z_scores(row) for factor, row in zip(factors, scores, strict=True)]
    return np.asarray(np.sum(parts, axis=0))


def weighted_parts(name: str) -> dict[str, float]:
    """Return the rankers that a fusion's name such as ``bm25+2*minilm`` joins, and their weights.

    Raises ``UserError`` for a weight that is no number.
    """
    parts: dict[str, float] = {}
    for word in (word.strip() for word in name.split("+")):
        factor, star, ranker = word.rpartition("*")
        try:
            parts[ranker.strip()] = float(factor) if star else 1.0
        except ValueError:
            raise UserError(f"write a fusion as bm25+2*minilm, not '{name}'") from None
    return {ranker: factor for ranker, factor in parts.items() if ranker}


def parts_of(name: str) -> list[str]:
    """Return the rankers that a fusion's name joins."""
    return list(weighted_parts(name))


def fuse_named(name: str, known: Mapping[str, Sequence[float] | Scores]) -> Scores:
    """Return the scores of ``name``: a ranker's own, or the fusion of several."""
    parts = weighted_parts(name)
    if len(parts) == 1:
        return np.asarray(known[next(iter(parts))], dtype=float)
    return fuse([known[part] for part in parts], list(parts.values()))


def softmax(scores: Scores) -> Scores:
    """Return positive weights that sum to one."""
    if not len(scores):
        return scores
    raised = np.exp(scores - scores.max())
    return np.asarray(raised / raised.sum())
