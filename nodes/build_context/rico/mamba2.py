"""RICO on Mamba-2: documents' recurrent states are mixed, and the question runs from the mixture.

A layer's state is a matrix a head, and within one layer the state after two texts is
``S([d1; d2]) = A(d2) S(d1) + S(d2)`` (exact in layer 0 when the convolution starts anew at the
boundary; deeper layers read what the layers below made of the text before, so there it is only an
approximation). RICO adds states with weights, ``S(w) = Σ w_i S_i``, and minimises the question's
loss ``L(w)`` from that initial state. The gradient by the initial state is taken once; the slope
along any document's weight is then its inner product with that document's state.
"""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from nodes.build_context.rico.backend import Document, Gradient, Query, State, Target
from nodes.build_context.rico.layers import kept_layers, subset_name
from nodes.build_context.rico.mamba2_cache import InitialStates, final_states
from nodes.build_context.rico.projection import Projection
from nodes.build_context.rico.prompts import Loss, answer_prompt, make_prompt, prompt_loss
from stores.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

Conv = Literal["mix", "zero"]


class Mamba2Backend:
    """Any Mamba-2 language model in Hugging Face form.

    A state is ``{"ssm": (layers, heads, head size, state size), "conv": (layers, channels,
    kernel)}``. ``conv`` says what the question's convolution starts from: the mixture of the
    documents' (``mix``) or nothing (``zero``). ``layers`` keeps only some layers' states (the
    others start from zero), which makes the index that much smaller. ``projection`` keeps so many
    numbers a layer instead of the state (see :mod:`~nodes.build_context.rico.projection`): enough
    for ``zero_state`` and ``naive``, which need inner products only.
    """

    parameterisation: Literal["linear", "log"] = "linear"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        fingerprint: str,
        max_tokens: int = 300,
        loss: Loss = "content",
        conv: Conv = "mix",
        layers: Sequence[int] | None = None,
        projection: int | None = None,
    ) -> None:
        self.name = name
        self.layers = int(model.config.num_hidden_layers)
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._loss = loss
        self._conv = conv
        self._kept = kept_layers(layers, self.layers, name)
        self.max_tokens = max_tokens
        self._projection = None if projection is None else Projection(projection)
        self.fingerprint = f"{fingerprint}/{max_tokens}{subset_name(self._kept, self.layers)}"
        if self._projection is not None:
            self.fingerprint += f"/{self._projection.name}"
        self._lock = threading.RLock()

    def encode(self, documents: Sequence[Document]) -> list[State]:
        """Return one state a document; one document is in memory at a time."""
        import torch

        states: list[State] = []
        for document in documents:
            with self._lock, torch.no_grad():
                cache = InitialStates(self.layers)
                self._model.backbone(
                    torch.tensor([self._document_ids(document)]), cache_params=cache, use_cache=True
                )
                ssm, conv = final_states(cache)
            state = {"ssm": ssm[self._kept].float(), "conv": conv[self._kept].float()}
            states.append(self.projected(state))
        return states

    def loss(
        self, states: Sequence[State], weights: "Tensor", query: Query, target: Target = "question"
    ) -> "Tensor":
        """Return L(w); see :class:`~nodes.build_context.rico.backend.Backend`."""
        return self._loss_from(*self._mixed(states, weights), query, target)

    def gradient(
        self, states: Sequence[State], weights: "Tensor", query: Query, target: Target = "question"
    ) -> Gradient:
        """Return L(w) and ∂L/∂w by layer; states are read one at a time, so any number will do."""
        import torch

        if self._projection is not None:
            ssm, conv = self._nothing(weights)
        else:
            ssm, conv = (part.detach() for part in self._mixed(states, weights))
        ssm, conv = ssm.requires_grad_(), conv.requires_grad_()
        with torch.enable_grad():
            loss = self._loss_from(ssm, conv, query, target)
            slopes = torch.autograd.grad(loss, [ssm, conv], allow_unused=True)
        by_ssm, by_conv = (
            torch.zeros_like(part) if slope is None else slope
            for part, slope in zip((ssm, conv), slopes, strict=True)
        )
        by_conv = by_conv if self._conv == "mix" else by_conv * 0
        direction = self.projected({"ssm": by_ssm, "conv": by_conv})
        columns = [
            torch.stack([(direction[name] * state[name]).flatten(1).sum(1) for name in direction])
            for state in states
        ]
        slope = torch.zeros(self.layers, len(states))
        slope[self._kept] = torch.stack([column.sum(0) for column in columns], dim=1)
        return Gradient(float(loss.detach()), slope)

    def summary(self, state: State) -> "Tensor":
        """Return the recurrent states of all kept layers, flat."""
        return state["ssm"].float().flatten()

    def generate(
        self, states: Sequence[State], weights: "Tensor", question: str, max_tokens: int = 32
    ) -> str:
        """Answer greedily from the mixed state."""
        import torch

        new = answer_prompt(self._tokenizer, question)
        ends = {self._tokenizer.eos_token_id}
        answer: list[int] = []
        with self._lock, torch.no_grad():
            cache = self._cache(*self._mixed(states, weights.detach()))
            for _ in range(max_tokens):
                logits = self._model(torch.tensor([new]), cache_params=cache, use_cache=True).logits
                token = int(logits[0, -1].argmax())
                if token in ends or "\n" in self._tokenizer.decode([token]).strip(" "):
                    break
                answer.append(token)
                new = [token]
        return str(self._tokenizer.decode(answer)).strip()

    def _mixed(self, states: Sequence[State], weights: "Tensor") -> tuple["Tensor", "Tensor"]:
        """Return ``Σ w_i S_i`` of the kept layers, recurrent and convolution part."""
        import torch

        if self._projection is not None:
            raise self._unmixable()
        ssm, conv = torch.zeros_like(states[0]["ssm"]), torch.zeros_like(states[0]["conv"])
        for weight, state in zip(weights, states, strict=True):
            ssm = ssm + weight * state["ssm"]
            conv = conv + weight * state["conv"]
        return ssm, conv

    def _nothing(self, weights: "Tensor") -> tuple["Tensor", "Tensor"]:
        """Return the kept layers' states before any text: all that a projected index can start at."""
        import torch

        if bool(weights.any()):
            raise self._unmixable()
        cache = InitialStates(self.layers)
        with self._lock, torch.no_grad():  # one token, for the shapes
            self._model.backbone(torch.zeros(1, 1, dtype=torch.long), cache_params=cache)
        ssm, conv = final_states(cache)
        return torch.zeros_like(ssm[self._kept]), torch.zeros_like(conv[self._kept])

    def _unmixable(self) -> UserError:
        return UserError(
            f"{self.name} keeps projections of states, which cannot be mixed: "
            "rank with zero_state or naive, or keep whole states"
        )

    def projected(self, state: State) -> State:
        """Return what the index keeps of a whole state: itself, or its projection."""
        return state if self._projection is None else self._projection(state)

    def _loss_from(self, ssm: "Tensor", conv: "Tensor", query: Query, target: Target) -> "Tensor":
        prompt = make_prompt(self._tokenizer, query, target, self._loss, 512)
        with self._lock:
            logits = self._model(
                prompt.ids, cache_params=self._cache(ssm, conv), use_cache=True
            ).logits
        return prompt_loss(logits, prompt)

    def _cache(self, ssm: "Tensor", conv: "Tensor") -> InitialStates:
        conv = conv if self._conv == "mix" else conv * 0
        return InitialStates(
            self.layers,
            dict(zip(self._kept, ssm, strict=True)),
            dict(zip(self._kept, conv, strict=True)),
        )

    def _document_ids(self, document: Document) -> list[int]:
        start = self._tokenizer.bos_token_id
        if start is None:
            start = self._tokenizer.eos_token_id
        ids = self._tokenizer(document.shown(), add_special_tokens=False)["input_ids"]
        return [int(start or 0), *ids][: self.max_tokens]
