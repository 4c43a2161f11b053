"""Rankers: from a backend's loss to one score a document (higher is more relevant).

``w`` are the weights of the mixture, ``N`` the number of documents, ``L`` the question's loss.

| name | score of document i | model calls |
|---|---|---|
| multistep | w_i after a few AdamW steps on L(w) from w = 1/N | 2 a step |
| single_gradient | -∂L/∂w_i at w = 1/N | 2 |
| zero_state | -∂L/∂w_i at w = 0 | 2 |
| warm_start | w_i after a few steps from the prior's weights | 2 a step |
| leave_one_out | L(w without i) - L(w) at w = 1/N | N + 1 |
| loss | -L(e_i): each document alone, the paragon | N |
| naive | inner product of the document's and the question's own state | 1 |

For a convex L two of these are bounded by the gradient (the paper's proposition 3.1, in the form
that the tests check): with g = ∂L/∂w, removing document i costs at least -w_i g_i, and putting all
weight on it costs at least g_i - Σ_j w_j g_j.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nodes.build_context.rico.backend import Backend, Document, Query, State, Target
from nodes.build_context.rico.fusion import softmax, z_scores
from stores.errors import UserError

Scores = NDArray[np.float64]
#: The weight that stands for none where only the logarithm of a weight is known to the model.
_NEAR_ZERO = 1e-4


@dataclass(frozen=True)
class Options:
    """How to rank. ``layers`` are those whose gradient counts (None: all; negative from the end).

    ``steps`` and ``learning_rate`` are AdamW's, for the rankers that take steps.
    """

    steps: int = 5
    learning_rate: float = 0.1
    layers: tuple[int, ...] | None = None
    target: Target = "question"


@dataclass(frozen=True)
class Ranking:
    """What a ranker found. ``weights`` sum to one and are for showing; ``scores`` decide.

    ``losses`` is the loss at every step (one entry where there is one), ``calls`` counts forward
    and backward passes over the question, ``by_layer`` is -∂L/∂w ``(layers, N)`` where known,
    ``path`` what the optimiser moved (weights or their logarithms) after each step ``(steps, N)``.
    """

    scores: Scores
    weights: Scores
    losses: tuple[float, ...] = ()
    calls: int = 0
    seconds: float = 0.0
    by_layer: Scores | None = field(default=None, repr=False)
    path: Scores | None = field(default=None, repr=False)


Ranker = Callable[[Backend, Sequence[State], Query, Options, Scores | None], Ranking]


def rank(
    name: str,
    backend: Backend,
    states: Sequence[State],
    query: Query,
    options: Options | None = None,
    prior: Sequence[float] | Scores | None = None,
) -> Ranking:
    """Rank ``states`` with the ranker called ``name``; ``prior`` is what ``warm_start`` starts from.

    Raises ``UserError`` for an unknown name, or a missing prior. No documents give empty scores.
    """
    if name not in RANKERS:
        raise UserError(f"unknown ranker '{name}': known are {', '.join(RANKERS)}")
    if not states:
        return Ranking(np.zeros(0), np.zeros(0))
    started = time.perf_counter()
    known = None if prior is None else np.asarray(prior, dtype=float)
    found = RANKERS[name](backend, states, query, options or Options(), known)
    return replace(found, seconds=time.perf_counter() - started)


def single_gradient(
    backend: Backend, states: Sequence[State], query: Query, options: Options, prior: Scores | None
) -> Ranking:
    """Score by the slope of the loss at uniform weights."""
    return _slope(backend, states, query, options, 1 / len(states))


def zero_state(
    backend: Backend, states: Sequence[State], query: Query, options: Options, prior: Scores | None
) -> Ranking:
    """Score by the slope of the loss where no document is remembered.

    Exact for states that add up. On attention, weights of 1e-4 stand for none.
    """
    at = 0.0 if backend.parameterisation == "linear" else _NEAR_ZERO
    return _slope(backend, states, query, options, at)


def multistep(
    backend: Backend, states: Sequence[State], query: Query, options: Options, prior: Scores | None
) -> Ranking:
    """Optimise the weights from uniform ones."""
    start = np.full(len(states), 1 / len(states))
    return _optimise(backend, states, query, options, start)


def warm_start(
    backend: Backend, states: Sequence[State], query: Query, options: Options, prior: Scores | None
) -> Ranking:
    """Optimise the weights from those of another ranker: the softmax of its z-scores."""
    if prior is None or len(prior) != len(states):
        raise UserError("warm_start needs a score for each document: name bm25 or minilm with it")
    return _optimise(backend, states, query, options, softmax(z_scores(prior)))


def leave_one_out(
    backend: Backend, states: Sequence[State], query: Query, options: Options, prior: Scores | None
) -> Ranking:
    """Score by how much the loss grows when the document's weight becomes zero."""
    import torch

    count = len(states)
    losses = []
    with torch.no_grad():
        for left_out in (None, *range(count)):
            weights = torch.full((count,), 1 / count)
            if left_out is not None:
                weights[left_out] = 0
            losses.append(float(backend.loss(states, weights, query, options.target)))
    scores = np.asarray(losses[1:]) - losses[0]
    return Ranking(scores, softmax(z_scores(scores)), tuple(losses), count + 1)


def loss(
    backend: Backend, states: Sequence[State], query: Query, options: Options, prior: Scores | None
) -> Ranking:
    """Score by minus the question's loss after this document alone."""
    import torch

    with torch.no_grad():
        one = torch.ones(1)
        losses = [float(backend.loss([s], one, query, options.target)) for s in states]
    scores = -np.asarray(losses)
    return Ranking(scores, softmax(scores), tuple(losses), len(states))


def naive(
    backend: Backend, states: Sequence[State], query: Query, options: Options, prior: Scores | None
) -> Ranking:
    """Score by the cosine of the document's state and that of the question read as a document."""
    (own,) = backend.encode([Document("", query.question)])
    asked = backend.summary(own)
    length = float(asked.norm()) or 1.0
    scores = np.zeros(len(states))
    for i, state in enumerate(states):
        summary = backend.summary(state)
        scores[i] = float(summary @ asked) / (length * (float(summary.norm()) or 1.0))
    return Ranking(scores, softmax(z_scores(scores)), (), 1)


def _slope(
    backend: Backend, states: Sequence[State], query: Query, options: Options, at: float
) -> Ranking:
    import torch

    weights = torch.full((len(states),), at)
    found = backend.gradient(states, weights, query, options.target)
    by_layer = -found.by_layer.double().numpy()
    layers = list(range(backend.layers)) if options.layers is None else list(options.layers)
    if not layers or any(not -backend.layers <= layer < backend.layers for layer in layers):
        raise UserError(f"{backend.name} has layers 0 to {backend.layers - 1}, not {layers}")
    scores = by_layer[layers].sum(0)
    return Ranking(scores, softmax(z_scores(scores)), (found.loss,), 2, by_layer=by_layer)


def _optimise(
    backend: Backend, states: Sequence[State], query: Query, options: Options, start: Scores
) -> Ranking:
    import torch

    is_log = backend.parameterisation == "log"
    begin = torch.tensor(np.log(start) if is_log else start, dtype=torch.float32)
    theta = begin.clone().requires_grad_()
    optimiser = torch.optim.AdamW([theta], lr=options.learning_rate, weight_decay=0.0)
    losses: list[float] = []
    path: list[Scores] = []
    for _ in range(max(options.steps, 1)):
        optimiser.zero_grad()
        with torch.enable_grad():
            # Weights of a state space model add states up; they may leave [0, 1], as in the paper.
            weights = theta.exp() if is_log else theta
            value = backend.loss(states, weights, query, options.target)
            value.backward()  # type: ignore[no-untyped-call]
        losses.append(float(value.detach()))
        optimiser.step()
        path.append(theta.detach().double().numpy().copy())
    moved = path[-1]
    return Ranking(
        moved,
        softmax(moved) if is_log else softmax(z_scores(moved)),
        tuple(losses),
        2 * len(losses),
        path=np.stack(path),
    )


RANKERS: dict[str, Ranker] = {
    "single_gradient": single_gradient,
    "multistep": multistep,
    "warm_start": warm_start,
    "zero_state": zero_state,
    "leave_one_out": leave_one_out,
    "loss": loss,
    "naive": naive,
}
