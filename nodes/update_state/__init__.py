"""State updaters: a summary of constant size, updated with each event."""

import base64

import numpy as np

from stategate.nodes.protocols import Vector
from stategate.stores.errors import UserError


def packed(state: Vector | None) -> str | None:
    """Return a recurrent state as text for a checkpoint: half precision, base64.

    Text, since servers of graphs write state as JSON. Raises ``UserError`` for a state that would not
    come back.
    """
    if state is None:
        return None
    with np.errstate(over="ignore"):
        half = np.asarray(state, dtype="<f2")
    if half.ndim != 1 or not np.isfinite(half).all():
        raise UserError("the updater's state must be one row of numbers within ±65504: scale them")
    return base64.b64encode(half.tobytes()).decode()


def unpacked(stored: str | None) -> Vector | None:
    """Read :func:`packed` back."""
    if stored is None:
        return None
    return np.frombuffer(base64.b64decode(stored), dtype="<f2").astype(np.float32)
