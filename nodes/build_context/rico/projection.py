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

from stores.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


class Projection:
    """Maps each part of a state ``(layers, ...)`` to a sketch of shape ``(layers, size)``.

    Parts have sums of their own: the convolution's inputs are large and matter little, and would
    drown the rest. A part of ``size`` numbers or fewer stays whole, flat. Equal ``size`` and ``seed``
    make equal projections, on any machine.
    """

    def __init__(self, size: int, seed: int = 0) -> None:
        if size < 1:
            raise UserError(f"projection={size}: keep at least one number a layer")
        self.size = size
        self.seed = seed
        self.name = f"sketch{size}-{seed}"
        self._made: dict[tuple[str, int, int], tuple[Tensor, Tensor]] = {}

    def __call__(self, parts: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
        """Project every part of a state."""
        import torch

        sketched = {}
        for name, part in parts.items():
            flat = part.float().flatten(1)
            if flat.shape[1] > self.size:
                places, signs = self._hashes(name, *flat.shape)
                sums = torch.zeros(len(flat), self.size)
                flat = sums.scatter_add_(1, places, flat * signs)
            sketched[name] = flat
        return sketched

    def _hashes(self, name: str, layers: int, width: int) -> tuple["Tensor", "Tensor"]:
        import numpy as np
        import torch

        if (name, layers, width) not in self._made:
            rng = np.random.default_rng([self.seed, layers, width, *name.encode()])
            places = rng.integers(0, self.size, (layers, width))
            signs = (rng.integers(0, 2, (layers, width)) * 2 - 1).astype(np.float32)
            self._made[name, layers, width] = torch.from_numpy(places), torch.from_numpy(signs)
        return self._made[name, layers, width]
