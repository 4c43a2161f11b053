"""Recurrent state: vectors to base64 for checkpoints, and back; the updaters are in its modules."""

import base64

import numpy as np

from stategate.nodes.protocols import Vector
from stategate.stores.errors import UserError


def packed(state: Vector | None) -> str | None:
    """Return a recurrent state vector as base64 of its half-precision numbers.

    It is text, since LangGraph's servers write state as JSON. Raises ``UserError`` for a state that
    half precision cannot hold.
    """
    if state is None:
        return None
    with np.errstate(over="ignore"):
        half = np.asarray(state, dtype="<f2")
    if half.ndim != 1 or not np.isfinite(half).all():
        raise UserError("the updater's state must be one row of numbers within ±65504: scale them")
    return base64.b64encode(half.tobytes()).decode()


def unpacked(stored: str | None) -> Vector | None:
    """Return the state vector of :func:`packed`'s text."""
    if stored is None:
        return None
    return np.frombuffer(base64.b64decode(stored), dtype="<f2").astype(np.float32)
