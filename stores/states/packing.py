"""How one document's arrays become bytes and come back: quantised, and told in one line of the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Dtype = Literal["fp32", "fp16", "int8"]
_NUMPY: dict[str, str] = {"fp32": "<f4", "fp16": "<f2", "int8": "<i1"}


@dataclass(frozen=True)
class Part:
    """One array of a document."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """Where a document's arrays lie: ``size`` bytes from ``offset`` of a shard."""

    shard: int
    offset: int
    size: int
    parts: tuple[Part, ...]


def entry_of(row: Mapping[str, Any]) -> Entry:
    """Read a line of the log."""
    parts = tuple(Part(str(name), tuple(map(int, shape))) for name, shape in row["parts"])
    shard, offset, size = (int(value) for value in row["at"])
    return Entry(shard, offset, size, parts)


def pack(array: NDArray[Any], dtype: Dtype) -> bytes:
    """Return an array's bytes as ``dtype``; int8 has one scale for each matrix (last two axes)."""
    if dtype == "fp16":  # what it cannot hold becomes the largest it can, never infinity
        array = np.clip(array, -65504, 65504)
    if dtype != "int8":
        return np.ascontiguousarray(array, dtype=_NUMPY[dtype]).tobytes()
    values = np.asarray(array, dtype=np.float32)
    axes = tuple(range(max(values.ndim - 2, 0), values.ndim))
    top = np.abs(values).max(axis=axes, keepdims=True, initial=0.0)
    scale = np.where(top > 0, top / 127, 1).astype("<f4")
    return bytes(scale.tobytes() + np.rint(values / scale).astype("<i1").tobytes())


def unpack(
    blob: NDArray[np.uint8], shape: tuple[int, ...], dtype: Dtype
) -> tuple[NDArray[np.float32], int]:
    """Return the array at the head of ``blob``, and how many bytes it took."""
    count = int(np.prod(shape))
    width = np.dtype(_NUMPY[dtype]).itemsize
    if dtype != "int8":
        used = count * width
        return blob[:used].view(_NUMPY[dtype]).astype(np.float32).reshape(shape), used
    lead = shape[:-2] if len(shape) >= 2 else ()
    scales = int(np.prod(lead)) if lead else 1
    scale = blob[: 4 * scales].view("<f4").reshape(*lead, *(1,) * (len(shape) - len(lead)))
    used = 4 * scales + count
    values = blob[4 * scales : used].view("<i1").reshape(shape)
    return (values * scale).astype(np.float32), used
