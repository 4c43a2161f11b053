"""Train the query by which ``retrieve`` ranks chunks; the state model, trained before, stays frozen.

Triplet loss over cosines (margin 0.2, 16 negatives: the page's other chunks first, then those of
other pages); rank accuracy is the share of decisions whose chunk comes first on its own page. The state
at each decision has seen that decision's own page, as it has when a context is built.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import dropout, pad

from stategate.envs.protocols import View
from stategate.nodes.build_context.heads import done_in, make_projection
from stategate.nodes.retrieval.align import FEATURES, match
from stategate.nodes.retrieval.page import describe
from stategate.nodes.update_state.learned import load_model
from stategate.nodes.update_state.state_models import StateModel
from stategate.stores.assets.weights import require_match
from stategate.stores.errors import UserError
from stategate.trainers.settings import RetrieverSettings
from stategate.trainers.state import (
    Choice,
    Sequenced,
    Vectors,
    embedded,
    group_means,
    group_of,
    read_sequences,
    readouts,
    stacked,
)
from stategate.trainers.trainer import Trainer, TrainingRun, file_hashes, in_parts, shuffled

_MARGIN, _NEGATIVES = 0.2, 16
_DROPPED = 0.1  # share of the readout's numbers zeroed


class Decision(NamedTuple):
    """What was known where a chunk was chosen: the state's readout (d_state,) and the instruction.

    ``chunks`` are the page's, the right one first; ``features`` (m, k) are what each chunk and the wish
    have in common (``nodes.retrieval.align``); ``group`` is what the decision's episode hangs together
    with.
    """

    readout: Tensor
    wish: str
    chunks: list[str]
    features: Tensor
    group: str


def train(settings: RetrieverSettings) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    model, state = load_model(settings.state)
    view, embedder, sides = read_sequences(settings)
    require_match(settings.state, state, "embedder", embedder.name, "set its embedder")
    run = TrainingRun(settings, file_hashes(settings.data, settings.heldout))
    inputs = embedded((text for side in sides for e in side for text in e.texts), embedder)
    fitted, validation, heldout = (_decisions(side, view, model, inputs) for side in sides)
    if not fitted or not validation:
        raise UserError(
            f"'{settings.data}' holds no decision on a page whose actions are known, or too few: "
            "record more episodes"
        )
    sizes = {"d_state": model.d_state, "d_text": embedder.dimension, "features": len(FEATURES)}
    projection = make_projection(**sizes)
    chunks = [text for one in fitted for text in one.chunks]
    decided = (*fitted, *validation, *heldout)
    vectors = embedded((text for one in decided for text in (one.wish, *one.chunks)), embedder)

    def data(generator: Generator) -> Iterator[list[Decision]]:
        for batch in shuffled(fitted, settings.batch, generator):
            yield [_with_negatives(one, chunks, generator) for one in batch]

    def loss(batch: Sequence[Decision]) -> Tensor:
        scores = scored(projection, batch, vectors, _DROPPED)
        losses = [(_MARGIN + one[1:] - one[0]).relu().sum() / _NEGATIVES for one in scores]
        return torch.stack(losses).mean()

    @torch.no_grad()
    def ranks(decisions: Sequence[Decision]) -> Tensor:
        parts = (scored(projection, part, vectors) for part in in_parts(decisions))
        return _ranks([one for part in parts for one in part])

    def metric() -> dict[str, float]:
        return {"rank_accuracy": float((ranks(validation) < 1).float().mean())}

    history = Trainer(data, projection, loss, metric, clip=None).fit(settings)
    reported = heldout or validation
    # With nothing learned: the instruction's likeness to each chunk.
    alike = _ranks([stacked(one.chunks, vectors) @ vectors[one.wish] for one in reported])
    rows = [
        _recalled("trained", ranks(reported), reported),
        _recalled("instruction", alike, reported),
    ]
    facts = {
        "embedder": embedder.name,
        "world": view.name,
        "state_sha256": state["sha256"],
        "epochs": len(history) - 1,
    }
    return run.finish("retriever", sizes, projection.state_dict(), rows, facts)


@torch.no_grad()
def _decisions(
    episodes: Sequence[Sequenced], view: View, model: StateModel, vectors: Vectors
) -> list[Decision]:
    """Run the frozen state model; return the choices that a chunk of their page carries."""
    decisions: list[Decision] = []
    for part in in_parts(episodes):
        choices = [(episode, choice) for episode in part for choice in episode.choices]
        for readout, (episode, choice) in zip(readouts(model, part, vectors), choices, strict=True):
            if (page := _page(episode, choice, view)) is not None:
                wish, group = episode.trajectory.instruction, group_of(episode.trajectory)
                decisions.append(Decision(readout, wish, *page, group))
    return decisions


def _page(episode: Sequenced, choice: Choice, view: View) -> tuple[list[str], Tensor] | None:
    """Return a page's chunks, the right one first, and their features (m, k)."""
    chunks = [c for c in view.chunks(choice.page) if c.role != "frame" and describe(c)]
    right = next((j for j, c in enumerate(chunks) if choice.action in c.actions), None)
    if right is None:
        return None
    trajectory = episode.trajectory
    done = done_in(trajectory.events[: choice.before])
    features = match(trajectory.instruction, chunks, done)
    order = [right, *(j for j in range(len(chunks)) if j != right)]
    return [describe(chunks[j]) for j in order], torch.from_numpy(features[order])


def scored(
    projection: nn.Module, batch: Sequence[Decision], vectors: Vectors, dropped: float = 0.0
) -> list[Tensor]:
    """Return each decision's scores (m,) of its chunks: cosine to the query, and weighed features."""
    states = dropout(torch.stack([one.readout for one in batch]), dropped)
    queries = projection(states, stacked([one.wish for one in batch], vectors))
    weights = projection.feature_weights(states)  # type: ignore[operator]
    return [
        stacked(one.chunks, vectors) @ query + one.features @ weight
        for one, query, weight in zip(batch, queries, weights, strict=True)
    ]


def _with_negatives(one: Decision, every: Sequence[str], generator: Generator) -> Decision:
    """Return a decision with as many chunks as are learned from: its page's, then other pages'.

    Chunks of other pages have nothing in common with the wish.
    """
    own = one.chunks[: 1 + _NEGATIVES]
    drawn = torch.randint(len(every), (1 + _NEGATIVES - len(own),), generator=generator)
    negatives = [every[i] for i in drawn.tolist() if every[i] != own[0]]
    features = pad(one.features[: len(own)], (0, 0, 0, len(negatives)))
    return one._replace(chunks=own + negatives, features=features)


def _ranks(scores: Sequence[Tensor]) -> Tensor:
    """Return how many chunks of each page come before the right one, the first."""
    return torch.tensor([int((one[1:] >= one[0]).sum()) for one in scores])


def _recalled(name: str, ranks: Tensor, decisions: Sequence[Decision]) -> dict[str, Any]:
    """Return a summary row: Recall@k over decisions."""
    hits = {f"recall@{k}": (ranks < k).double().numpy() for k in (1, 3, 5)}
    return group_means(name, hits, [one.group for one in decisions])
