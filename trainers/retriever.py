"""Train ``retriever``: the query by which ``retrieve`` ranks chunks, over a frozen state model.

The loss is the triplet loss over cosines (margin 0.2, 16 negatives: the page's other chunks first, then
those of other pages). Rank accuracy is the share of choices whose chunk ranks first on its own page.
The state has read that page, as it has when a context is built.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import dropout, pad

from stategate.envs.protocols import View
from stategate.nodes.build_context.baselines import done_in
from stategate.nodes.build_context.heads import make_projection
from stategate.nodes.retrieval.align import FEATURES, match
from stategate.nodes.retrieval.page import describe
from stategate.nodes.update_state.learned import load_model
from stategate.nodes.update_state.state_models import StateModel
from stategate.stores.assets.weights import require_match
from stategate.stores.errors import UserError
from stategate.trainers.settings import RetrieverSettings
from stategate.trainers.state import (
    Choice,
    EncodedEpisode,
    Vectors,
    embedded,
    group_means,
    group_of,
    read_sequences,
    readouts,
    stacked,
)
from stategate.trainers.trainer import Trainer, TrainingRun, file_hashes, in_batches, shuffled

_MARGIN, _NEGATIVES = 0.2, 16
_DROPPED = 0.1  # of the state's numbers


class RankingExample(NamedTuple):
    """A choice of a chunk: the state (d_state,), the instruction, and the candidates.

    ``chunks`` are the page's m chunks, the right one first; ``features`` (m, k) match each with the
    instruction (``nodes.retrieval.align``); ``group`` is the episode's.
    """

    state: Tensor
    instruction: str
    chunks: list[str]
    features: Tensor
    group: str


def train(settings: RetrieverSettings) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    model, model_meta = load_model(settings.state)
    view, embedder, sides = read_sequences(settings)
    require_match(settings.state, model_meta, "embedder", embedder.name, "set its embedder")
    run = TrainingRun(settings, file_hashes(settings.data, settings.heldout))
    inputs = embedded((text for side in sides for e in side for text in e.texts), embedder)
    fitted, validation, heldout = (_examples(side, view, model, inputs) for side in sides)
    if not fitted or not validation:
        raise UserError(
            f"'{settings.data}' holds no decision on a page whose actions are known, or too few: "
            "record more episodes"
        )
    sizes = {"d_state": model.d_state, "d_text": embedder.dimension, "features": len(FEATURES)}
    projection = make_projection(**sizes)
    pool = [chunk for example in fitted for chunk in example.chunks]
    examples = (*fitted, *validation, *heldout)
    texts = (text for example in examples for text in (example.instruction, *example.chunks))
    vectors = embedded(texts, embedder)

    def data(generator: Generator) -> Iterator[list[RankingExample]]:
        for batch in shuffled(fitted, settings.batch, generator):
            yield [_with_negatives(example, pool, generator) for example in batch]

    def loss(batch: Sequence[RankingExample]) -> Tensor:
        losses = [
            (_MARGIN + scores[1:] - scores[0]).relu().sum() / _NEGATIVES
            for scores in chunk_scores(projection, batch, vectors, _DROPPED)
        ]
        return torch.stack(losses).mean()

    @torch.no_grad()
    def ranks(examples: Sequence[RankingExample]) -> Tensor:
        batches = (chunk_scores(projection, batch, vectors) for batch in in_batches(examples))
        return _ranks([scores for batch in batches for scores in batch])

    def metric() -> dict[str, float]:
        return {"rank_accuracy": float((ranks(validation) < 1).float().mean())}

    history = Trainer(data, projection, loss, metric, clip=None).fit(settings)
    reported = heldout or validation
    baseline = _ranks([stacked(e.chunks, vectors) @ vectors[e.instruction] for e in reported])
    rows = [
        _recall_row("trained", ranks(reported), reported),
        _recall_row("instruction", baseline, reported),
    ]
    facts = {
        "embedder": embedder.name,
        "world": view.name,
        "state_sha256": model_meta["sha256"],
        "epochs": len(history) - 1,
    }
    return run.finish("retriever", sizes, projection.state_dict(), rows, facts)


@torch.no_grad()
def _examples(
    episodes: Sequence[EncodedEpisode], view: View, model: StateModel, vectors: Vectors
) -> list[RankingExample]:
    """Return an example for each choice whose action a chunk of its page carries."""
    examples: list[RankingExample] = []
    for batch in in_batches(episodes):
        choices = [(episode, choice) for episode in batch for choice in episode.choices]
        for state, (episode, choice) in zip(readouts(model, batch, vectors), choices, strict=True):
            if (candidates := _candidates(episode, choice, view)) is not None:
                instruction, group = episode.trajectory.instruction, group_of(episode.trajectory)
                examples.append(RankingExample(state, instruction, *candidates, group))
    return examples


def _candidates(
    episode: EncodedEpisode, choice: Choice, view: View
) -> tuple[list[str], Tensor] | None:
    """Return a page's chunks, the right one first, and their features (m, k); None without one."""
    chunks = [c for c in view.chunks(choice.page) if c.role != "frame" and describe(c)]
    right = next((i for i, c in enumerate(chunks) if choice.action in c.actions), None)
    if right is None:
        return None
    trajectory = episode.trajectory
    done = done_in(trajectory.events[: choice.events_before])
    features = match(trajectory.instruction, chunks, done)
    order = [right, *(i for i in range(len(chunks)) if i != right)]
    return [describe(chunks[i]) for i in order], torch.from_numpy(features[order])


def chunk_scores(
    projection: nn.Module, batch: Sequence[RankingExample], vectors: Vectors, dropped: float = 0.0
) -> list[Tensor]:
    """Return each example's scores (m,): cosine to the query, plus weighted features."""
    states = dropout(torch.stack([example.state for example in batch]), dropped)
    queries = projection(states, stacked([example.instruction for example in batch], vectors))
    weights = projection.feature_weights(states)  # type: ignore[operator]
    return [
        stacked(example.chunks, vectors) @ query + example.features @ weight
        for example, query, weight in zip(batch, queries, weights, strict=True)
    ]


def _with_negatives(
    example: RankingExample, pool: Sequence[str], generator: Generator
) -> RankingExample:
    """Return an example of the right chunk and 16 negatives: its page's, then some of ``pool``.

    Chunks of other pages have no feature in common with the instruction: zeros.
    """
    chunks = example.chunks[: 1 + _NEGATIVES]
    drawn = torch.randint(len(pool), (1 + _NEGATIVES - len(chunks),), generator=generator)
    negatives = [pool[i] for i in drawn.tolist() if pool[i] != chunks[0]]
    features = pad(example.features[: len(chunks)], (0, 0, 0, len(negatives)))
    return example._replace(chunks=chunks + negatives, features=features)


def _ranks(scores: Sequence[Tensor]) -> Tensor:
    """Return the rank (from 0) of the right chunk, the first, among the scores of its page."""
    return torch.tensor([int((page[1:] >= page[0]).sum()) for page in scores])


def _recall_row(name: str, ranks: Tensor, examples: Sequence[RankingExample]) -> dict[str, Any]:
    """Return a summary row: Recall@k."""
    hits = {f"recall@{k}": (ranks < k).double().numpy() for k in (1, 3, 5)}
    return group_means(name, hits, [example.group for example in examples])
