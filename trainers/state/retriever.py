"""Phase 2: train ``query_proj`` to rank the right chunk first; the state model stays frozen.

Triplet loss over cosines (margin 0.2, 16 negatives: the page's other chunks first, then those of
other pages); rank accuracy is the share of decisions whose chunk comes first on its own page. The state
at each decision has seen that decision's own page, as it has when a context is built.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import View
from stategate.nodes.build_context.heads import done_in, make_projection
from stategate.nodes.protocols import Embedder
from stategate.nodes.retrieval.align import FEATURES, match
from stategate.nodes.retrieval.page import describe
from stategate.nodes.update_state.learned import load_model
from stategate.nodes.update_state.state_models import StateModel
from stategate.stores.assets.weights import require_match
from stategate.stores.errors import UserError
from stategate.trainers.episodes import embedder_of, group_of
from stategate.trainers.settings import RetrieverSettings, data_hashes, open_run, save_checkpoint
from stategate.trainers.state.data import Sequenced, TextTable, batches, read_sequences, summary_row
from stategate.trainers.trainer import Trainer, pick_device

_MARGIN, _NEGATIVES = 0.2, 16
_DROPPED = 0.1  # share of the readout's numbers zeroed


@dataclass(frozen=True)
class Decisions:
    """Decisions as tensors: ``readouts`` (n, d_state), ``wishes`` (n, d_text), ``pages`` (n, m).

    A row of ``pages`` names rows of the text table, the right chunk first, -1 behind; ``features``
    (n, m, k) are what each chunk and the wish have in common (``nodes.retrieval.align``); ``groups``
    are what each decision's episode hangs together with.
    """

    readouts: Tensor
    wishes: Tensor
    pages: Tensor
    features: Tensor
    groups: tuple[str, ...]


def train(settings: RetrieverSettings) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    model, state = load_model(settings.state)
    embedder = embedder_of(settings)
    require_match(settings.state, state, "embedder", embedder.name, "set its embedder")
    view, table, (fitted_episodes, validated, heldout) = read_sequences(settings)
    run = open_run(settings, {"data": data_hashes(settings)})
    table.embed(embedder)
    model.to(device)

    def decisions_of(side: Sequence[Sequenced]) -> Decisions | None:
        return _decisions(side, view, model, table, embedder, device)

    fitted, validation = decisions_of(fitted_episodes), decisions_of(validated)
    if fitted is None or validation is None:
        raise UserError(
            f"'{settings.data}' holds no decision on a page whose actions are known, or too few: "
            "record more episodes"
        )
    torch.manual_seed(settings.seed)
    sizes = {"d_state": model.d_state, "d_text": embedder.dimension, "features": len(FEATURES)}
    projection = make_projection(**sizes).to(device)

    def data(generator: Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        order = torch.randperm(len(fitted.groups), generator=generator)
        for rows in torch.split(order, settings.batch):
            yield rows, *_with_negatives(fitted, rows, _NEGATIVES, table, generator)

    def loss(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        rows, chosen, features = batch
        readouts = dropout(fitted.readouts[rows], _DROPPED).to(device)
        wishes, chunks = fitted.wishes[rows].to(device), table.vectors[chosen].to(device)
        scores = scored(projection, readouts, wishes, chunks, features.to(device))
        return (_MARGIN + scores[:, 1:] - scores[:, :1]).relu().mean()

    def metric() -> dict[str, float]:
        ranks = _ranks(projection, validation, table, device)
        return {"rank_accuracy": float((ranks < 1).float().mean())}

    history = Trainer(data, projection, loss, metric, clip=None).fit(settings)
    reported = decisions_of(heldout) or validation
    ranks, alike = _ranks(projection, reported, table, device), _alike(reported, table)
    rows = [
        _recalled("trained", ranks, reported.groups),
        _recalled("instruction", alike, reported.groups),
    ]
    save_checkpoint(
        settings,
        "retriever",
        sizes,
        projection.state_dict(),
        embedder=embedder.name,
        world=view.name,
        state_sha256=state["sha256"],
        data=data_hashes(settings),
        metrics=rows[0],
        epochs=len(history) - 1,
    )
    return run.summarise(rows, [])


def _decisions(
    episodes: Sequence[Sequenced],
    view: View,
    model: StateModel,
    table: TextTable,
    embedder: Embedder,
    device: torch.device,
) -> Decisions | None:
    """Run the frozen state model; return what it knew at each decision, None without any."""
    rows: list[tuple[Tensor, list[int], Tensor, int, str]] = []
    with torch.inference_mode():
        for batch in batches(episodes, table, 64, device):
            states = model(batch.texts, batch.types)
            for own, episode in zip(states, batch.episodes, strict=True):
                wish, group = episode.trajectory.instruction, group_of(episode.trajectory)
                rows += [
                    (own[place].cpu(), page, matched, table.add(wish), group)
                    for place, page, matched in _candidates(episode, view, table)
                ]
    if not rows:
        return None
    readouts, pages, features, wishes, groups = zip(*rows, strict=True)
    table.embed(embedder)
    width = max(map(len, pages))
    padded = torch.tensor([[*page, *[-1] * (width - len(page))] for page in pages])
    matches = pad_sequence(list(features), batch_first=True)
    tensors = torch.stack(readouts).clone(), table.vectors[list(wishes)], padded, matches
    return Decisions(*tensors, groups)


def _candidates(
    episode: Sequenced, view: View, table: TextTable
) -> Iterator[tuple[int, list[int], Tensor]]:
    """Yield the decisions for an action that a chunk of its page carries.

    Each is the place of its input, the chunks' rows with the right one first, their features (m, k).
    """
    trajectory = episode.trajectory
    for choice in episode.choices:
        if choice.action not in choice.page.actions:
            continue
        chunks = [c for c in view.chunks(choice.page) if c.role != "frame" and describe(view, c)]
        right = next((j for j, c in enumerate(chunks) if choice.action in c.actions), None)
        if right is None:
            continue
        done = done_in(trajectory.events[: choice.before])
        features = match(view, trajectory.instruction, chunks, done)
        order = [right, *(j for j in range(len(chunks)) if j != right)]
        rows = [table.add(describe(view, chunks[j])) for j in order]
        yield choice.place, rows, torch.from_numpy(features[order])


def scored(
    projection: nn.Module, readouts: Tensor, wishes: Tensor, chunks: Tensor, features: Tensor
) -> Tensor:
    """Return scores (B, k) of ``chunks`` (B, k, d_text): cosine to the query, and weighed features."""
    weights = projection.feature_weights(readouts)  # type: ignore[operator]
    scores: Tensor = torch.einsum("bd,bkd->bk", projection(readouts, wishes), chunks)
    return scores + torch.einsum("bf,bkf->bk", weights, features)


def _with_negatives(
    decisions: Decisions, rows: Tensor, count: int, table: TextTable, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return chunk rows (B, 1 + count) and features: the right one, its page's, then other pages'.

    Chunks of other pages have nothing in common with the wish.
    """
    pages = decisions.pages[rows]
    width = min(pages.shape[1], 1 + count)
    chosen = torch.full((len(rows), 1 + count), -1)
    chosen[:, :width] = pages[:, :width]
    features = torch.zeros(*chosen.shape, decisions.features.shape[-1])
    features[:, :width] = decisions.features[rows][:, :width]
    all_chunks = decisions.pages[decisions.pages >= 0]
    random_chunks = all_chunks[torch.randint(len(all_chunks), chosen.shape, generator=generator)]
    filled = torch.where(chosen < 0, random_chunks, chosen)
    # A drawn chunk that happens to be the right one is no negative: it takes its neighbour.
    clash = filled[:, 1:] == filled[:, :1]
    filled[:, 1:] = torch.where(clash, (filled[:, 1:] + 1) % len(table.vectors), filled[:, 1:])
    return filled, features


def _ranks(
    projection: nn.Module, decisions: Decisions, table: TextTable, device: torch.device
) -> Tensor:
    with torch.inference_mode():
        parts = decisions.readouts, decisions.wishes, table.vectors[decisions.pages.clamp_min(0)]
        moved = [part.to(device) for part in (*parts, decisions.features)]
        return _places(scored(projection, *moved).cpu(), decisions)


def _alike(decisions: Decisions, table: TextTable) -> Tensor:
    """Return the ranks that the instruction's likeness to each chunk gives, with nothing learned."""
    chunks = table.vectors[decisions.pages.clamp_min(0)]
    return _places(torch.einsum("bd,bkd->bk", decisions.wishes, chunks), decisions)


def _places(scores: Tensor, decisions: Decisions) -> Tensor:
    scores[decisions.pages < 0] = -torch.inf
    ranks: Tensor = (scores[:, 1:] >= scores[:, :1]).sum(-1)
    return ranks


def _recalled(name: str, ranks: Tensor, groups: Sequence[str]) -> dict[str, Any]:
    """Return a summary row: Recall@k over decisions."""
    hits = {f"recall@{k}": (ranks < k).double().numpy() for k in (1, 3, 5)}
    return summary_row(name, hits, groups)
