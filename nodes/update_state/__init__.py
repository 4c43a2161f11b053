"""State updaters: a summary of constant size, updated with each event."""

import base64

import numpy as np

from stategate.nodes.protocols import Vector


def packed(state: Vector | None) -> str | None:
    """Return a recurrent state as text for a checkpoint: half precision, base64.

    Text, since servers of graphs write state as JSON.
    """
    if state is None:
        return None
    return base64.b64encode(np.asarray(state, dtype="<f2").tobytes()).decode()


def unpacked(stored: str | None) -> Vector | None:
    """Read :func:`packed` back."""
    if stored is None:
        return None
    return np.frombuffer(base64.b64decode(stored), dtype="<f2").astype(np.float32)
