"""Which layers' states an index keeps."""

from collections.abc import Sequence

from stores.errors import UserError


def kept_layers(layers: Sequence[int] | None, count: int, name: str) -> list[int]:
    """Return the layers to keep, sorted (None: all; negative from the end). Raises ``UserError``."""
    if layers is None:
        return list(range(count))
    if not layers or any(not -count <= int(layer) < count for layer in layers):
        raise UserError(f"{name} has layers 0 to {count - 1}, not {list(layers)}")
    return sorted({int(layer) % count for layer in layers})


def subset_name(kept: Sequence[int], count: int) -> str:
    """Return what a fingerprint says of the kept layers: nothing where all are."""
    return "" if len(kept) == count else f"/layers{list(kept)}"
