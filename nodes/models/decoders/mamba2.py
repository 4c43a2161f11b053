"""RICO on Mamba-2: documents' recurrent states are mixed, and the question runs from the mixture.

A layer's state is a matrix a head, and within one layer the state after two texts is
``S([d1; d2]) = A(d2) S(d1) + S(d2)`` (exact in layer 0 when the convolution starts anew at the
boundary; deeper layers read what the layers below made of the text before, so there it is only an
approximation). RICO adds states with weights, ``S(w) = Σ w_i S_i``, and minimises the question's
loss ``L(w)`` from that initial state. The gradient by the initial state is taken once; the slope
along any document's weight is then its inner product with that document's state.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from stategate.nodes.models.decoders.backend import Backend, Document, Reader, State


class Mamba2Backend(Backend):
    """Any Mamba-2 language model in Hugging Face form.

    A state is ``{"ssm": (layers, heads, head size, state size), "conv": (layers, channels,
    kernel)}``.
    """

    def encode(self, documents: Sequence[Document]) -> list[State]:
        """Return one state a document; one document is in memory at a time."""
        return [self._state_after(self._document_ids(document)) for document in documents]

    def slope(self, states: Sequence[State], weights: Tensor, question: str) -> Tensor:
        """Return ∂L/∂w; states are read one at a time, so any number will do."""
        start = self._mixed(states, weights.detach())
        moving = {name: part.requires_grad_() for name, part in start.items()}
        with torch.enable_grad():
            loss = self.question_loss(self._reader_from(moving), question)
            direction = dict(
                zip(moving, torch.autograd.grad(loss, list(moving.values())), strict=True)
            )
        along = [sum((part * state[n]).sum() for n, part in direction.items()) for state in states]
        return torch.as_tensor(along, dtype=torch.float32)

    def _state_after(self, ids: Sequence[int]) -> dict[str, Tensor]:
        with self._lock, torch.no_grad():
            cache = InitialStates(self.layers)
            self._model.backbone(torch.tensor([list(ids)]), cache_params=cache, use_cache=True)
            ssm, conv = final_states(cache)
        return {"ssm": ssm.float(), "conv": conv.float()}

    def _mixed(self, states: Sequence[State], weights: Tensor) -> dict[str, Tensor]:
        """Return ``Σ w_i S_i``, recurrent and convolution part."""
        mixed = {name: torch.zeros_like(part) for name, part in states[0].items()}
        for weight, state in zip(weights, states, strict=True):
            mixed = {name: part + weight * state[name] for name, part in mixed.items()}
        return mixed

    def _reader(self, states: Sequence[State], weights: Tensor) -> Reader:
        return self._reader_from(self._mixed(states, weights))

    def _reader_from(self, start: Mapping[str, Tensor]) -> Reader:
        ssm, conv = (dict(enumerate(start[part])) for part in ("ssm", "conv"))
        cache = InitialStates(self.layers, ssm, conv)

        def read(ids: Sequence[int]) -> Tensor:
            names = torch.tensor([list(ids)])
            logits: Tensor = self._model(names, cache_params=cache, use_cache=True).logits
            return logits

        return read


class InitialStates:
    """What ``Mamba2Mixer`` asks of a cache, without writing in place.

    transformers' own cache copies new states into fixed tensors, which cuts the gradient to the
    initial state; this one replaces them.

    ``ssm`` maps a layer to its initial state ``(heads, head size, state size)``, ``conv`` to its
    last inputs ``(channels, kernel)``. A layer without one starts from nothing. Steps of one token
    would be written in place by the model, so :attr:`is_recording_past` avoids that.
    """

    def __init__(
        self,
        layers: int,
        ssm: Mapping[int, Tensor] | None = None,
        conv: Mapping[int, Tensor] | None = None,
    ) -> None:
        self.layers = layers
        self.ssm: dict[int, Tensor] = {k: v[None] for k, v in (ssm or {}).items()}
        self.conv: dict[int, Tensor] = {k: v[None] for k, v in (conv or {}).items()}

    def get_conv_state(self, layer_idx: int = 0, state_idx: int = 0) -> Tensor | None:
        """Return the layer's last convolution inputs."""
        return self.conv.get(layer_idx)

    def get_recurrent_state(self, layer_idx: int = 0, state_idx: int = 0) -> Tensor | None:
        """Return the layer's state as a new tensor, because one-token steps write into it."""
        state = self.ssm.get(layer_idx)
        if state is None:
            return None
        self.ssm[layer_idx] = state.clone()
        return self.ssm[layer_idx]

    def update_conv_state(
        self, conv_states: Tensor, layer_idx: int, conv_kernel_size: int, **_: object
    ) -> Tensor:
        """Return the earlier inputs and the new ones, side by side, and keep the last few."""
        before = self.conv.get(layer_idx)
        whole = conv_states if before is None else torch.cat([before, conv_states], dim=-1)
        missing = conv_kernel_size - whole.shape[-1]
        self.conv[layer_idx] = (
            pad(whole, (missing, 0)) if missing > 0 else whole[..., -conv_kernel_size:]
        )
        return whole

    def update_recurrent_state(
        self, recurrent_states: Tensor, layer_idx: int, **_: object
    ) -> Tensor:
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


def final_states(cache: InitialStates) -> tuple[Tensor, Tensor]:
    """Return all layers' recurrent and convolution states, stacked."""
    ssm, conv = ([part[i][0] for i in range(cache.layers)] for part in (cache.ssm, cache.conv))
    return torch.stack(ssm), torch.stack(conv)
