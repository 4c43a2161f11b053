"""A cache for Mamba-2 that starts from given states and lets gradients through.

transformers' own cache copies new states into fixed tensors in place, which cuts the gradient to
the initial state. This one replaces them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class InitialStates:
    """What ``Mamba2Mixer`` asks of a cache, without writing in place.

    ``ssm`` maps a layer to its initial state ``(heads, head size, state size)``, ``conv`` to its
    last inputs ``(channels, kernel)``. A layer without one starts from nothing. Steps of one token
    would be written in place by the model, so :attr:`is_recording_past` sends them the long way.
    """

    def __init__(
        self,
        layers: int,
        ssm: "Mapping[int, Tensor] | None" = None,
        conv: "Mapping[int, Tensor] | None" = None,
    ) -> None:
        self.layers = layers
        self.ssm: dict[int, Tensor] = {k: v[None] for k, v in (ssm or {}).items()}
        self.conv: dict[int, Tensor] = {k: v[None] for k, v in (conv or {}).items()}

    def get_conv_state(self, layer_idx: int = 0, state_idx: int = 0) -> "Tensor | None":
        """Return the layer's last convolution inputs."""
        return self.conv.get(layer_idx)

    def get_recurrent_state(self, layer_idx: int = 0, state_idx: int = 0) -> "Tensor | None":
        """Return the layer's state as a new tensor, because one-token steps write into it."""
        state = self.ssm.get(layer_idx)
        if state is None:
            return None
        self.ssm[layer_idx] = state.clone()
        return self.ssm[layer_idx]

    def update_conv_state(
        self, conv_states: "Tensor", layer_idx: int, conv_kernel_size: int, **_: Any
    ) -> "Tensor":
        """Return the earlier inputs and the new ones, side by side, and keep the last few."""
        import torch
        from torch.nn.functional import pad

        before = self.conv.get(layer_idx)
        whole = conv_states if before is None else torch.cat([before, conv_states], dim=-1)
        missing = conv_kernel_size - whole.shape[-1]
        self.conv[layer_idx] = (
            pad(whole, (missing, 0)) if missing > 0 else whole[..., -conv_kernel_size:]
        )
        return whole

    def update_recurrent_state(
        self, recurrent_states: "Tensor", layer_idx: int, **_: Any
    ) -> "Tensor":
        """Keep the layer's new state."""
        self.ssm[layer_idx] = recurrent_states
        return recurrent_states

    def is_recording_past(self, layer_idx: int = 0) -> bool:
        """Say yes, so that a single token's convolution is not written in place."""
        return True

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0: a recurrent state has no length."""
        return 0

    def has_previous_state(self, layer_idx: int | None = None) -> bool:
        """Say whether anything was read before."""
        return bool(self.ssm)


def final_states(cache: InitialStates) -> "tuple[Tensor, Tensor]":
    """Return all layers' recurrent and convolution states, stacked."""
    import torch

    order = range(cache.layers)
    return torch.stack([cache.ssm[i][0] for i in order]), torch.stack(
        [cache.conv[i][0] for i in order]
    )
