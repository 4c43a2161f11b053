"""RICO on Mamba-2: documents' recurrent states are mixed, and the question runs from the mixture.

A layer's state is a matrix a head, and within one layer the state after two texts is
``S([d1; d2]) = A(d2) S(d1) + S(d2)`` (exact in layer 0 when the convolution starts anew at the
boundary; deeper layers read what the layers below made of the text before, so there it is only an
approximation). RICO adds states with weights, ``S(w) = Σ w_i S_i``, and minimises the question's
loss ``L(w)`` from that initial state. The gradient by the initial state is taken once; the slope
along any document's weight is then its inner product with that document's state.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from stategate.nodes.models.decoders.backend import (
    Backend,
    Document,
    Gradient,
    Reader,
    State,
    make_prompt,
    prompt_loss,
)
from stategate.stores.errors import UserError


class Mamba2Backend(Backend):
    """Any Mamba-2 language model in Hugging Face form.

    A state is ``{"ssm": (layers, heads, head size, state size), "conv": (layers, channels,
    kernel)}``. Layers that are not among ``layers`` start from zero.
    ``projection`` keeps so many numbers a layer instead of the state (see :class:`Projection`): enough
    for ``zero_state`` and ``naive``, which need inner products only.
    """

    parameterisation: ClassVar[Literal["linear", "log"]] = "linear"

    def __init__(self, *parts: Any, projection: int | None = None, **reading: Any) -> None:
        super().__init__(*parts, **reading)
        self._projection = None if projection is None else Projection(projection)
        if self._projection is not None:
            self.fingerprint += f"/{self._projection.name}"

    def encode(self, documents: Sequence[Document]) -> list[State]:
        """Return one state a document; one document is in memory at a time."""
        return [
            self._projected(self._state_after(self._document_ids(document)))
            for document in documents
        ]

    def gradient(self, states: Sequence[State], weights: Tensor, question: str) -> Gradient:
        """Return L(w) and ∂L/∂w; states are read one at a time, so any number will do."""
        if self._projection is None:
            start = {name: part.detach() for name, part in self._mixed(states, weights).items()}
        elif bool(weights.any()):
            raise self._unmixable()
        else:  # all that a projected index can start at; one token is read for the shapes
            start = {name: torch.zeros_like(part) for name, part in self._state_after([0]).items()}
        prompt = make_prompt(self._tokenizer, question, self._loss, self._room)
        moving = {name: part.requires_grad_() for name, part in start.items()}
        with torch.enable_grad(), self._lock:
            loss = prompt_loss(self._reader_from(moving)(prompt.ids[0].tolist()), prompt)
            slopes = torch.autograd.grad(loss, list(moving.values()), allow_unused=True)
        direction = self._projected(
            {
                name: torch.zeros_like(part) if slope is None else slope
                for (name, part), slope in zip(moving.items(), slopes, strict=True)
            }
        )
        along = [sum((part * state[n]).sum() for n, part in direction.items()) for state in states]
        return Gradient(float(loss.detach()), torch.as_tensor(along, dtype=torch.float32))

    def summary(self, state: State) -> Tensor:
        """Return the recurrent states of all kept layers, flat."""
        return state["ssm"].float().flatten()

    def _state_after(self, ids: Sequence[int]) -> dict[str, Tensor]:
        with self._lock, torch.no_grad():
            cache = InitialStates(self.layers)
            self._model.backbone(torch.tensor([list(ids)]), cache_params=cache, use_cache=True)
            ssm, conv = final_states(cache)
        return {"ssm": ssm[self._layers].float(), "conv": conv[self._layers].float()}

    def _mixed(self, states: Sequence[State], weights: Tensor) -> dict[str, Tensor]:
        """Return ``Σ w_i S_i`` of the kept layers, recurrent and convolution part."""
        if self._projection is not None:
            raise self._unmixable()
        mixed = {name: torch.zeros_like(part) for name, part in states[0].items()}
        for weight, state in zip(weights, states, strict=True):
            mixed = {name: part + weight * state[name] for name, part in mixed.items()}
        return mixed

    def _reader(self, states: Sequence[State], weights: Tensor) -> Reader:
        return self._reader_from(self._mixed(states, weights))

    def _reader_from(self, start: Mapping[str, Tensor]) -> Reader:
        ssm, conv = (dict(zip(self._layers, start[part], strict=True)) for part in ("ssm", "conv"))
        cache = InitialStates(self.layers, ssm, conv)

        def read(ids: Sequence[int]) -> Tensor:
            known = torch.tensor([list(ids)])
            logits: Tensor = self._model(known, cache_params=cache, use_cache=True).logits
            return logits

        return read

    def _projected(self, state: Mapping[str, Tensor]) -> State:
        """Return what the index keeps of a whole state: itself, or its projection."""
        return state if self._projection is None else self._projection(state)

    def _unmixable(self) -> UserError:
        return UserError(
            f"{self.name} keeps projections of states, which cannot be mixed: "
            "rank with zero_state or naive, or keep whole states"
        )


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
        self, conv_states: Tensor, layer_idx: int, conv_kernel_size: int, **_: Any
    ) -> Tensor:
        """Return the earlier inputs and the new ones, side by side, and keep the last few."""
        before = self.conv.get(layer_idx)
        whole = conv_states if before is None else torch.cat([before, conv_states], dim=-1)
        missing = conv_kernel_size - whole.shape[-1]
        self.conv[layer_idx] = (
            pad(whole, (missing, 0)) if missing > 0 else whole[..., -conv_kernel_size:]
        )
        return whole

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, **_: Any) -> Tensor:
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


class Projection:
    """Seeded random projection: each part of a state ``(layers, ...)`` to a sketch ``(layers, size)``.

    Each number of a layer's state is added, with a random sign, to one of ``size`` sums chosen at
    random (the count sketch of Charikar, Chen and Farach-Colton, 2002; feature hashing). For two
    states of one seed ``E<Pa, Pb> = <a, b>``, with a variance of at most
    ``(|a|²|b|² + <a, b>²) / size``. It applies where a score is an inner product with a direction
    that no document has a part in: the slope at the empty state (``zero_state``) and ``naive``. Not
    to rankers that mix the states themselves, nor to transformers, whose scores are no inner products
    with keys and values.

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

    def __call__(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Project every part of a state."""
        sketched = {}
        for name, part in parts.items():
            flat = part.float().flatten(1)
            if flat.shape[1] > self.size:
                places, signs = _hashes(self.size, self.seed, name, *flat.shape)
                sums = torch.zeros(len(flat), self.size)
                flat = sums.scatter_add_(1, places, flat * signs)
            sketched[name] = flat
        return sketched


@lru_cache(maxsize=16)
def _hashes(size: int, seed: int, name: str, layers: int, width: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([seed, layers, width, *name.encode()])
    places = rng.integers(0, size, (layers, width))
    signs = (rng.integers(0, 2, (layers, width)) * 2 - 1).astype(np.float32)
    return torch.from_numpy(places), torch.from_numpy(signs)
