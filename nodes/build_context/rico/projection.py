"""Seeded random projection of states: inner products are preserved in expectation.

Each number of a layer's state is added, with a random sign, to one of ``size`` sums chosen at random
(the count sketch of Charikar, Chen and Farach-Colton, 2002; feature hashing). For two states of one
seed ``E<Pa, Pb> = <a, b>``, with a variance of at most ``(|a|²|b|² + <a, b>²) / size``.

It applies where a score is an inner product with a direction that no document has a part in: the
slope at the empty state (``zero_state``) and ``naive``, on states that add up. It does not apply to
``single_gradient`` or ``multistep``, which must mix the states themselves, nor to transformers, whose
scores are no inner products with keys and values.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Projection:
    """Maps a state's parts ``(layers, ...)`` to one ``sketch`` of shape ``(layers, size)``.

    Equal ``size`` and ``seed`` make equal projections, on any machine.
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        if size < 1:
            raise ValueError(f"a projection needs at least one number a layer, not {size}")
        self.size = size
        self.seed = seed
        self.name = f"sketch{size}-{seed}"
        self._made: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def __call__(self, parts: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
        """Project all parts of a state together."""
        import torch

        flat = torch.cat([parts[name].float().flatten(1) for name in sorted(parts)], dim=1)
        places, signs = self._hashes(*flat.shape)
        sketch = torch.zeros(len(flat), self.size)
        return {"sketch": sketch.scatter_add_(1, places, flat * signs)}

    def _hashes(self, layers: int, width: int) -> tuple["Tensor", "Tensor"]:
        import numpy as np
        import torch

        if (layers, width) not in self._made:
            rng = np.random.default_rng([self.seed, layers, width])
            places = rng.integers(0, self.size, (layers, width))
            signs = rng.integers(0, 2, (layers, width)) * 2 - 1
            self._made[layers, width] = (
                torch.from_numpy(places), torch.from_numpy(signs.astype(np.float32)),
            )  # fmt: skip
        return self._made[layers, width]
