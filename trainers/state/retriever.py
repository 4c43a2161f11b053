"""Phase 2: train ``query_proj`` to rank the right chunk first; the state model stays frozen.

Triplet loss over cosines (margin 0.2, 16 negatives: the page's other chunks first, then those of
other pages); rank accuracy is the share of decisions whose chunk comes first on its own page. The state
at each decision has seen that decision's own page, as it has when a context is built.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import dropout

from stategate.nodes.build_context.heads import make_projection
from stategate.nodes.retrieval.align import FEATURES
from stategate.stores.assets.weights import save_weights
from stategate.stores.runs import mean
from stategate.trainers.settings import RetrieverSettings, result
from stategate.trainers.state.data import Decisions, TextTable, error_over_groups, freeze
from stategate.trainers.trainer import Trainer

_MARGIN, _NEGATIVES = 0.2, 16
_DROPPED = 0.1  # share of the readout's numbers zeroed


def train(settings: RetrieverSettings) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    frozen = freeze(settings)
    table, device, fitted = frozen.table, frozen.device, frozen.fitted
    torch.manual_seed(settings.seed)
    sizes = {
        "d_state": frozen.model.d_state,
        "d_text": frozen.embedder.dimension,
        "features": len(FEATURES),
    }
    projection = make_projection(**sizes).to(device)

    def data(generator: Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        order = torch.randperm(len(fitted), generator=generator)
        for rows in torch.split(order, settings.batch):
            yield rows, *_with_negatives(fitted, rows, _NEGATIVES, table, generator)

    def loss(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        rows, chosen, features = batch
        readouts = dropout(fitted.readouts[rows], _DROPPED).to(device)
        wishes, chunks = fitted.wishes[rows].to(device), table.vectors[chosen].to(device)
        scores = scored(projection, readouts, wishes, chunks, features.to(device))
        return (_MARGIN + scores[:, 1:] - scores[:, :1]).relu().mean()

    def metric() -> dict[str, float]:
        ranks = _ranks(projection, frozen.validation, table, device)
        return {"rank_accuracy": float((ranks < 1).float().mean())}

    history = Trainer(data, projection, loss, metric, clip=None).fit(settings)
    rows: list[dict[str, Any]] = []
    for world, decisions in frozen.reported.items():
        of = f" on {world}" if len(frozen.reported) > 1 else ""
        ranks = _ranks(projection, decisions, table, device)
        rows.append(_recalled(f"trained{of}", ranks, decisions.groups))
        rows.append(_recalled(f"instruction{of}", _alike(decisions, table), decisions.groups))
    meta = {"kind": "retriever", "architecture": sizes, **frozen.facts}
    meta |= result(settings, len(history) - 1, rows[0])
    save_weights(settings.checkpoint, projection.state_dict(), meta)
    return frozen.run.summarise(rows, [])


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
    """Return a summary row: Recall@k over decisions, standard errors over groups of episodes."""
    row: dict[str, Any] = {"agent": name, "n": len(ranks), "groups": len(set(groups))}
    for k in (1, 3, 5):
        hits = (ranks < k).double().tolist()
        row[f"recall@{k}"] = mean(hits)
        row[f"recall@{k}_se"] = error_over_groups(hits, groups, mean)
    return row
