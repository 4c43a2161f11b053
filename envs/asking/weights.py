"""The aligner's weights, and what they know of any word: what it means, and how rare it is.

Three small networks with general features only (what a word means is one, no word is): of each word of
an instruction what it is; of each of several exclusive values whether it is asked for or excluded; of
what a page is about whether it can be what is asked. Trained on many wordings; they run without torch.

Meanings tell synonyms which share no letter ("couch", "sofa"): a sentence model's vectors of its own
vocabulary, reduced and rounded to bytes; a stem stands for all its words.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stategate.stores.tokens import encoding

Floats = NDArray[np.float32]
#: What a word of an instruction is: of the thing itself, a property of it, a value to choose, or talk.
ROLES = ("thing", "property", "value", "talk")


@cache
def _shipped() -> tuple[Mapping[str, Floats], Mapping[str, Any]]:
    from stategate.stores.assets.weights import load_arrays

    return load_arrays("aligner", "aligner")


@cache
def network(part: str) -> Mapping[str, Floats]:
    """Return the weights of "word", "value", "subject" or "meaning"."""
    arrays, _ = _shipped()
    lead = f"{part}/"
    return {k.removeprefix(lead): v for k, v in arrays.items() if k.startswith(lead)}


def in_columns(part: str, rows: Sequence[Mapping[str, float]]) -> Floats:
    """Return (rows, columns) of named features, in the order in which the checkpoint names them."""
    names = [name for name in _shipped()[1]["architecture"][part] if name != "meaning"]
    table = np.array([[row[name] for name in names] for row in rows], dtype=np.float32)
    return table.reshape(len(rows), len(names))


@cache
def _places() -> dict[str, int]:
    words = bytes(network("meaning")["words"]).decode().split()
    return {word: i for i, word in enumerate(words)}


@lru_cache(maxsize=16384)
def meaning_of(key: str) -> Floats:
    """Return (d,), a stem's meaning as a vector of length 1; zeros where it is unknown."""
    vectors, place = network("meaning")["vectors"], _places().get(key)
    if place is None:
        return np.zeros(vectors.shape[1], dtype=np.float32)
    vector: Floats = vectors[place].astype(np.float32)
    unit: Floats = vector / (float(np.linalg.norm(vector)) or 1.0)
    return unit


@lru_cache(maxsize=65536)
def likeness(one: str, other: str) -> float:
    """Return the cosine (0 to 1) of two stems' meanings; 0 where one is unknown."""
    return max(0.0, float(meaning_of(one) @ meaning_of(other)))


@lru_cache(maxsize=65536)
def rarity(word: str) -> tuple[float, float]:
    """Return how rare a word is (0 to 1) and how many pieces it has, by a byte-pair vocabulary.

    A vocabulary's merges are in order of frequency, so a piece's rank tells it without any corpus.
    """
    pieces = encoding().encode_ordinary(" " + word)
    rank = max(pieces) if len(pieces) == 1 else 100_000
    return math.log1p(rank) / math.log(100_001), min(len(pieces), 4) / 4
