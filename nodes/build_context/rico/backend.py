"""What a model must offer for RICO, and the words that go with it.

A *state* is what a model remembers of one document read alone: the recurrent and convolution states
of a state space model, or the keys and values of a transformer. Backends mix the states of many
documents with one weight a document and say how well the mixture predicts the question
(``L(w)`` of the paper: the mean negative log-likelihood of the question's tokens, in nats).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from torch import Tensor

#: Named parts of one document's state; shapes are the backend's own.
State = Mapping[str, "Tensor"]
Target = Literal["question", "answer"]


@dataclass(frozen=True)
class Document:
    """A document to be weighed; ``title`` may be empty."""

    title: str
    text: str

    def shown(self) -> str:
        """Return the document as models read it."""
        if self.title and self.text:
            return f"{self.title}: {self.text}"
        return self.title or self.text


@dataclass(frozen=True)
class Query:
    """What the documents must explain; ``answer`` is needed for the oracle target only.

    ``lead`` are words that the model reads before the question, outside the loss.
    """

    question: str
    answer: str | None = None
    lead: str = ""


@dataclass(frozen=True)
class Gradient:
    """The loss at some weights, and its slope along each document's weight through each layer.

    ``by_layer`` is ∂L/∂w, float32 of shape ``(layers, documents)``; its sum over layers is the
    whole gradient, a sum over some layers that of an index that keeps those layers only.
    """

    loss: float
    by_layer: "Tensor"


class Backend(Protocol):
    """A language model whose memory of several documents can be mixed with weights.

    ``parameterisation`` says where an optimiser should move: along the weights themselves
    (``linear``, for states that add up) or along their logarithms (``log``, for attention).
    ``fingerprint`` names weights and text format; states of another fingerprint are useless.
    """

    name: str
    fingerprint: str
    layers: int
    parameterisation: Literal["linear", "log"]

    def encode(self, documents: Sequence[Document]) -> list[State]:
        """Read each document alone; one state each, in order. Long documents are cut."""
        ...

    def loss(
        self, states: Sequence[State], weights: "Tensor", query: Query, target: Target = "question"
    ) -> "Tensor":
        """Return L(w), a scalar differentiable in ``weights`` (float32, ``(len(states),)``, ≥ 0).

        Prompt prefix and separators are outside the loss. Raises ``UserError`` for target
        ``answer`` without an answer.
        """
        ...

    def gradient(
        self, states: Sequence[State], weights: "Tensor", query: Query, target: Target = "question"
    ) -> Gradient:
        """Return L(w) and ∂L/∂w by layer: one forward and one backward pass."""
        ...

    def summary(self, state: State) -> "Tensor":
        """Return a state as one flat float32 vector, for the naive inner product."""
        ...

    def generate(
        self, states: Sequence[State], weights: "Tensor", question: str, max_tokens: int = 32
    ) -> str:
        """Answer greedily from the mixed state (``learned_state``)."""
        ...
