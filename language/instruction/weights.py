"""The reader's weights (``checkpoints/instruction``): hashed linear layers and word meanings.

Inference needs NumPy alone. A feature is a short text; its bucket is its CRC-32. Meanings tell
synonyms that share no letter ("couch", "sofa"): a sentence model's vectors of its own vocabulary,
reduced and rounded to bytes; a stem stands for all its words.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_SHIPPED = Path(__file__).parents[2] / "checkpoints"


@cache
def load_checkpoint(name: str | Path) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]:
    """Return the arrays and the metadata of one that ships, or of a path, checked by SHA-256."""
    from safetensors.numpy import load

    path = _SHIPPED / name
    data = path.with_suffix(".safetensors").read_bytes()
    meta = json.loads(path.with_suffix(".json").read_text("utf-8"))
    if hashlib.sha256(data).hexdigest() != meta["sha256"]:
        raise ValueError(f"{path}.safetensors is not the file that its JSON describes")
    return load(data), meta


_installed: tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]] | None = None


def install(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Read with these weights from now on: for a trainer, whose later parts read by its earlier."""
    global _installed
    _installed = (arrays, meta)
    for cached in (array, labels, _meanings, likeness):
        cached.cache_clear()


@cache
def array(name: str) -> NDArray[Any]:
    """Return the named array; hashed tables as bytes with a scale for each column."""
    values: NDArray[Any] = (_installed or load_checkpoint("instruction"))[0][name]
    return values


@cache
def labels(name: str) -> tuple[str, ...]:
    """Return the names of a layer's columns."""
    return tuple((_installed or load_checkpoint("instruction"))[1]["architecture"][name])


def buckets(features: Iterable[str], size: int) -> list[int]:
    """Return each feature's row in a table of ``size`` rows."""
    return [zlib.crc32(feature.encode("utf-8", "surrogatepass")) % size for feature in features]


def hashed(layer: str, rows: Iterable[Iterable[str]]) -> Floats:
    """Return (rows, columns): for each row the sum of its features' weights in the hashed table."""
    table, scale = array(f"{layer}/table"), array(f"{layer}/scale")
    sums = [table[buckets(row, len(table))].sum(axis=0, dtype=np.int32) for row in rows]
    return np.asarray(np.array(sums, dtype=np.float32).reshape(-1, table.shape[1]) * scale)


def softmax(logits: Floats) -> Floats:
    """Return probabilities over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float32)


@cache
def _meanings() -> dict[str, Floats]:
    """Return the meaning of each stem that is known, a vector of length 1."""
    stems = bytes(array("meaning/words")).decode().split()
    vectors = array("meaning/vectors").astype(np.float32)
    return {
        stem: row / (float(np.linalg.norm(row)) or 1.0)
        for stem, row in zip(stems, vectors, strict=True)
    }


@lru_cache(maxsize=65536)
def likeness(one: str, other: str) -> float:
    """Return the cosine (0 to 1) of two stems' meanings; 0 where one is unknown."""
    known = _meanings()
    return max(0.0, float(known[one] @ known[other])) if one in known and other in known else 0.0
