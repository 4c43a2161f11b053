"""What single words mean: vectors that tell synonyms which share no letter ("couch", "sofa").

A sentence model's vectors of its own vocabulary, once, reduced and rounded to bytes; a stem stands for
all its words. They ship with the aligner's weights, so reading them needs no model.
"""

from functools import lru_cache

import numpy as np

from stategate.envs.asking.weights import Floats, network, on_install

SIZE = 48


@lru_cache(maxsize=1)
def _places() -> dict[str, int]:
    words = network("meaning").get("words")
    return {} if words is None else {w: i for i, w in enumerate(bytes(words).decode().split())}


@lru_cache(maxsize=16384)
def _vector(key: str) -> Floats | None:
    place = _places().get(key)
    if place is None:
        return None
    vector: Floats = network("meaning")["vectors"][place].astype(np.float32)
    unit: Floats = vector / (float(np.linalg.norm(vector)) or 1.0)
    return unit


def meaning_of(key: str) -> Floats:
    """Return (SIZE,), a stem's meaning as a vector of length 1; zeros where it is unknown."""
    vector = _vector(key)
    return np.zeros(SIZE, dtype=np.float32) if vector is None else vector


@lru_cache(maxsize=65536)
def likeness(one: str, other: str) -> float:
    """Return the cosine (0 to 1) of two stems' meanings; 0 where one is unknown."""
    left, right = _vector(one), _vector(other)
    return 0.0 if left is None or right is None else max(0.0, float(left @ right))


def reduced(vectors: Floats) -> Floats:
    """Return ``vectors`` (n, d) as (n, SIZE) bytes that keep their likeness as well as may be.

    Their mean goes first: what all words have in common says nothing.
    """
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred.T @ centred)[0][:, :SIZE]
    short = centred @ axes
    short /= np.linalg.norm(short, axis=1, keepdims=True) + 1e-9
    rounded: Floats = np.round(short * 127).astype(np.int8)
    return rounded


on_install += [_places.cache_clear, _vector.cache_clear, likeness.cache_clear]
