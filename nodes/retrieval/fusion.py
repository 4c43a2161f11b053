"""Several rankings into one."""

from collections.abc import Mapping, Sequence

import numpy as np

Scores = Mapping[int, float]


def reciprocal_ranks(rankings: Sequence[Scores], k: int = 60) -> list[tuple[int, float]]:
    """Fuse by reciprocal ranks (Cormack et al., 2009), best first; ties keep the lower place."""
    fused: dict[int, float] = {}
    for scores in rankings:
        for rank, (place, _) in enumerate(_sorted(scores), 1):
            fused[place] = fused.get(place, 0.0) + 1 / (k + rank)
    return _sorted(fused)


def standardised(rankings: Sequence[Scores]) -> list[tuple[int, float]]:
    """Fuse by the sum of standardised scores, best first.

    What a ranking does not hold gets that ranking's lowest score: it is no better than the last.
    """
    places = sorted({place for scores in rankings for place in scores})
    total = np.zeros(len(places))
    for scores in rankings:
        if not scores:
            continue
        low = min(scores.values())
        row = np.array([scores.get(place, low) for place in places])
        total += (row - row.mean()) / (row.std() + 1e-9)
    return _sorted(dict(zip(places, map(float, total), strict=True)))


def _sorted(scores: Scores) -> list[tuple[int, float]]:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
