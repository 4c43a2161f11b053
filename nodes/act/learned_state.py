"""``learned_state``: a local model answers from the weighed states of the passages, not from a prompt.

RICO's second way of generation: the passages that the context shows are not read one after the
other; the model's memories of each, read alone, are mixed by their weights and the answer is
generated from the mixture. Needs a context builder that scores passages, such as ``rico``.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from envs.protocols import answer
from nodes.act.replies import question_in, unanswered
from nodes.models.decoders.backend import Document
from nodes.models.decoders.loading import shared_backend
from nodes.models.decoders.states import DocumentMemory
from nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from nodes.resources import Resources
from nodes.retrieval.quoting import unquote
from stores.states.documents import Dtype


class LearnedState(ActorParams):
    """Answer greedily from the mixture of the shown passages' states.

    Weights are the passages' scores, made to sum to one (equal where the context has none). With
    the model and sizes of the ``rico`` context, states that it keeps on disk are used again.
    """

    kind: Literal["learned_state"] = "learned_state"
    model: str = Field(
        default="smollm2-135m", description="asset, folder, .gguf file or hub name of the model"
    )
    max_tokens: int = Field(default=300, ge=8, description="the model's tokens a passage may have")
    answer_tokens: int = Field(default=32, ge=1, description="the model's tokens of an answer")
    states: Dtype = Field(default="fp16", description="how states are kept on disk")

    def build(self, resources: Resources) -> Actor:
        """Return the actor; the model is loaded at the first question."""
        memory = DocumentMemory(
            lambda: shared_backend(self.model, max_tokens=self.max_tokens), self.states
        )

        def act(context: BuiltContext, step: int) -> Decision:
            question = question_in(context)
            if not question:
                return unanswered(resources, context, "the context holds no question")
            documents, weights = passages_of(context)
            if not documents:
                reason = "the context holds no passage to answer from"
                return unanswered(resources, context, reason)
            states = memory.states(documents)
            import torch

            mixture = torch.tensor(weights, dtype=torch.float32)
            text = memory.backend.generate(states, mixture, question, self.answer_tokens)
            if not text:
                return unanswered(resources, context, "an empty reply")
            return Decision(answer(text))

        return act


def passages_of(context: BuiltContext) -> tuple[list[Document], list[float]]:
    """Return what the context quotes, as documents, and their weights (which sum to one)."""
    documents: list[Document] = []
    scores: list[float | None] = []
    for piece in context.pieces:
        if piece.kind == "passage" and piece.text.strip():
            documents.append(Document(*unquote(piece.text)))
            scores.append(piece.score)
    known = np.asarray([score for score in scores if score is not None], dtype=float)
    if len(known) != len(scores) or not len(known) or known.min() < 0 or known.sum() <= 0:
        return documents, [1 / len(documents)] * len(documents) if documents else []
    return documents, [float(value) for value in known / known.sum()]
