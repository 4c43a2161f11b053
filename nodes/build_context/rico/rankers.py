"""Rankers: from a backend's loss to one score a document (higher is more relevant).

``w`` are the weights of the mixture, ``N`` the number of documents, ``L`` the question's loss.

| name | score of document i | model calls |
|---|---|---|
| multistep | w_i after a few AdamW steps on L(w) from w = 1/N | 2 a step |
| single_gradient | -∂L/∂w_i at w = 1/N | 2 |
| zero_state | -∂L/∂w_i at w = 0 | 2 |
| leave_one_out | L(w without i) - L(w) at w = 1/N | N + 1 |
| loss | -L(e_i): each document alone, the slow reference | N |
| naive | inner product of the document's and the question's own state | 1 |

For a convex L two of these are bounded by the gradient (the paper's proposition 3.1, in the form
that the tests check): with g = ∂L/∂w, removing document i costs at least -w_i g_i, and putting all
weight on it costs at least g_i - Σ_j w_j g_j.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from stategate.nodes.models.decoders.backend import Backend, Document, State
from stategate.nodes.models.decoders.loading import DocumentMemory
from stategate.nodes.observe.qa import QaEnv
from stategate.nodes.protocols import Embedder
from stategate.nodes.retrieval.ranking import Scores, bm25, cosine, fuse, softmax, z_scores
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.errors import UserError
from stategate.stores.text import one_line

#: The weight that stands for none where only the logarithm of a weight is known to the model.
_NEAR_ZERO = 1e-4


@dataclass(frozen=True)
class Settings:
    """AdamW's, for the ranker that takes steps (multistep)."""

    steps: int = 5
    learning_rate: float = 0.1


@dataclass(frozen=True)
class Ranking:
    """What a ranker says. ``weights`` sum to one and are for showing; ``scores`` decide.

    ``losses`` is the loss at every step (one entry where there is one), ``calls`` counts forward
    and backward passes over the question, ``parts`` are each ranker's own scores where some are fused.
    """

    scores: Scores
    weights: Scores
    losses: tuple[float, ...] = ()
    calls: int = 0
    seconds: float = 0.0
    parts: Mapping[str, Scores] = field(default_factory=dict)

    def order(self) -> list[int]:
        """Return the documents' indices, most relevant first; ties keep their order."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]


@dataclass(frozen=True)
class _Case:
    """One question, the states of its candidates, and how to rank them."""

    backend: Backend
    states: Sequence[State]
    question: str
    settings: Settings

    @property
    def uniform(self) -> Scores:
        return np.full(len(self.states), 1 / len(self.states))

    def losses(self, mixtures: Sequence[tuple[Sequence[State], Sequence[float]]]) -> list[float]:
        """Return the loss after each mixture: states and their weights."""
        import torch

        with torch.no_grad():
            return [
                float(self.backend.loss(states, torch.tensor(list(weights)), self.question))
                for states, weights in mixtures
            ]

    def slope(self, at: float) -> Ranking:
        """Score by minus the slope of the loss where every weight is ``at``."""
        import torch

        weights = torch.full((len(self.states),), at)
        gradient = self.backend.gradient(self.states, weights, self.question)
        scores = -gradient.slope.double().numpy()
        return Ranking(scores, softmax(z_scores(scores)), (gradient.loss,), 2)

    def optimised(self) -> Ranking:
        """Score by the weights after a few steps of AdamW on the loss, from uniform ones."""
        import torch

        is_log = self.backend.parameterisation == "log"
        start = np.log(self.uniform) if is_log else self.uniform
        theta = torch.tensor(start, dtype=torch.float32)
        theta.requires_grad_()
        rate = self.settings.learning_rate
        optimiser = torch.optim.AdamW([theta], lr=rate, weight_decay=0.0)
        losses: list[float] = []
        for _ in range(max(self.settings.steps, 1)):
            optimiser.zero_grad()
            with torch.enable_grad():
                # Weights of a state space model add states up; they may leave [0, 1], as in the paper.
                weights = theta.exp() if is_log else theta
                loss = self.backend.loss(self.states, weights, self.question)
                loss.backward()  # type: ignore[no-untyped-call]
            losses.append(float(loss.detach()))
            optimiser.step()
        scores = theta.detach().double().numpy()
        weights_shown = softmax(scores if is_log else z_scores(scores))
        return Ranking(scores, weights_shown, tuple(losses), 2 * len(losses))


def rank(
    name: str,
    backend: Backend,
    states: Sequence[State],
    question: str,
    settings: Settings | None = None,
) -> Ranking:
    """Rank ``states`` with the ranker called ``name``; no documents give empty scores.

    Raises ``UserError`` for an unknown name.
    """
    if name not in RANKERS:
        raise UserError(f"unknown ranker '{name}': known are {', '.join(RANKERS)}")
    if not states:
        return Ranking(np.zeros(0), np.zeros(0))
    started = time.perf_counter()
    ranking = RANKERS[name](_Case(backend, states, question, settings or Settings()))
    return replace(ranking, seconds=time.perf_counter() - started)


def _leave_one_out(case: _Case) -> Ranking:
    mixtures = [case.uniform]
    for left_out in range(len(case.states)):
        weights = case.uniform
        weights[left_out] = 0
        mixtures.append(weights)
    losses = case.losses([(case.states, weights.tolist()) for weights in mixtures])
    scores = np.asarray(losses[1:]) - losses[0]
    return Ranking(scores, softmax(z_scores(scores)), tuple(losses), len(losses))


def _loss(case: _Case) -> Ranking:
    losses = case.losses([([state], [1.0]) for state in case.states])
    scores = -np.asarray(losses)
    return Ranking(scores, softmax(scores), tuple(losses), len(losses))


def _naive(case: _Case) -> Ranking:
    """Score by the cosine of the document's state and that of the question read as a document."""
    (own,) = case.backend.encode([Document("", case.question)])
    asked = case.backend.summary(own)
    length = float(asked.norm()) or 1.0
    scores = np.zeros(len(case.states))
    for i, state in enumerate(case.states):
        summary = case.backend.summary(state)
        scores[i] = float(summary @ asked) / (length * (float(summary.norm()) or 1.0))
    return Ranking(scores, softmax(z_scores(scores)), (), 1)


RANKERS: dict[str, Callable[[_Case], Ranking]] = {
    "single_gradient": lambda case: case.slope(1 / len(case.states)),
    "multistep": _Case.optimised,
    # Exact for states that add up; on attention small weights stand for none.
    "zero_state": lambda case: case.slope(
        0.0 if case.backend.parameterisation == "linear" else _NEAR_ZERO
    ),
    "leave_one_out": _leave_one_out,
    "loss": _loss,
    "naive": _naive,
}


Partner = Literal["bm25", "bm25_stem", "embedder"]


@dataclass(frozen=True)
class Weigher:
    """A ranker over ``memory``, and ``partners`` whose scores are added to its own, as z-scores."""

    memory: DocumentMemory
    embedder: Callable[[], Embedder]
    ranker: str = "single_gradient"
    partners: Sequence[Partner] = ("bm25_stem", "embedder")

    def weigh(self, question: str, documents: Sequence[Document], quiet: bool = True) -> Ranking:
        """Score ``documents`` for ``question``. Raises ``UserError`` for an empty question."""
        if not question.strip():
            raise UserError("the question is empty: ask something")
        if not documents:
            return Ranking(np.zeros(0), np.zeros(0))
        texts = [document.shown() for document in documents]
        states = self.memory.states(documents, quiet)
        ranking = rank(self.ranker, self.memory.backend, states, question)
        parts = {self.ranker: ranking.scores}
        for partner in self.partners:
            if partner == "embedder":
                parts[partner] = cosine(self.embedder(), question, texts)
            else:
                parts[partner] = bm25(question, texts, stemmed=partner == "bm25_stem")
        if not self.partners:
            return replace(ranking, parts=parts)
        fused = fuse(list(parts.values())) / len(parts)
        return replace(ranking, scores=fused, weights=softmax(fused), parts=parts)


def documents_of(corpus: str) -> list[Document]:
    """Return the passages of a corpus: ``sample``, an ingested name, or a folder or file of documents.

    They are cut and written as the ``rico`` context reads them, so that their states are used again.
    Raises ``UserError`` where there is none of that name, or nothing in it can be read.
    """
    world = QaEnv(corpus=corpus)
    passages = world.open().passages(Chunking.parse(world.chunking))
    return [Document(one_line(passage.title), one_line(passage.text)) for passage in passages]
