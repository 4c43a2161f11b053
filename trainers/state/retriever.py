"""Phase 2: train ``query_proj`` to rank the clicked chunk first; the state model stays frozen.

python -m trainers.state.retriever --config configs/train/retriever.yaml

Triplet loss over cosines (margin 0.2, 16 negatives: the page's other chunks first, then those of
other pages); rank accuracy is the share of clicks whose chunk comes first on its own page. The state at
each click has seen that click's own page, as it has when a context is built.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import dropout

from envs.protocols import Observation
from nodes.build_context.match import FEATURES, match
from nodes.build_context.query import done_in, make_projection
from nodes.build_context.query_rag import FRAME
from nodes.build_context.render import describe
from nodes.observe.webshop import chunk_page
from nodes.protocols import Embedder
from nodes.update_state.state_model import StateModel, load_model
from stores.assets.weights import require_match, save_weights
from stores.errors import UserError
from stores.runs import RunDirectory, mean, provenance
from stores.traces.trajectories import file_hash, read_trajectories
from trainers.episodes.split import split_by_group
from trainers.fitting import fit, pick_device
from trainers.settings import Settings, command_line
from trainers.state.data import Sequenced, TextTable, batches, sequence
from trainers.state.next_action import _args, _embedder


class RetrieverSettings(Settings):
    """Settings of phase 2."""

    state: str = Field(description="the state model's checkpoint, name or path")
    margin: float = Field(default=0.2, gt=0)
    negatives: int = Field(default=16, ge=1)
    drop_inputs: float = Field(default=0.1, ge=0, lt=1)


@dataclass(frozen=True)
class Clicks:
    """Click decisions as tensors: ``readouts`` (n, d_state), ``wishes`` (n, d_text), ``pages`` (n, m).

    A row of ``pages`` names rows of the text table, the clicked chunk first, -1 behind; ``features``
    (n, m, k) are what each chunk and the wish have in common (``nodes.build_context.match``).
    """

    readouts: Tensor
    wishes: Tensor
    pages: Tensor
    features: Tensor

    def __len__(self) -> int:
        return len(self.readouts)


#: A click: the decision's number, the chunks' rows with the clicked first, their features (m, k).
Click = tuple[int, list[int], Tensor]


def click_pages(episode: Sequenced, table: TextTable) -> list[Click]:
    """Return each click on a page whose affordances are known."""
    trajectory = episode.trajectory
    shown = [event for event in trajectory.events if event.kind == "OBS"]
    found: list[Click] = []
    for i, (place, choice) in enumerate(zip(episode.observations, episode.choices, strict=True)):
        actions = trajectory.actions[place] if place < len(trajectory.actions) else ()
        if not choice.startswith("click[") or choice not in actions:
            continue
        chunks = chunk_page(Observation(shown[place].text, actions))
        candidates = [c for c in chunks if c.kind not in FRAME and describe(c)]
        clicked = next((j for j, c in enumerate(candidates) if choice in c.actions), None)
        if clicked is None:
            continue
        at = trajectory.events.index(shown[place])
        features = match(trajectory.instruction, candidates, done_in(trajectory.events[:at]))
        order = [clicked, *(j for j in range(len(candidates)) if j != clicked)]
        rows = [table.add(describe(candidates[j])) for j in order]
        found.append((i, rows, torch.from_numpy(features[order])))
    return found


def gather(
    episodes: Sequence[Sequenced], pages: Sequence[list[Click]],
    model: StateModel, table: TextTable, device: torch.device,
) -> Clicks:  # fmt: skip
    """Run the frozen state model over ``episodes`` and keep what was known at each click."""
    readouts: list[Tensor] = []
    wishes: list[int] = []
    rows: list[list[int]] = []
    features: list[Tensor] = []
    wanted = {id(episode): found for episode, found in zip(episodes, pages, strict=True)}
    with torch.inference_mode():
        for batch in batches(episodes, table, 64, device):
            states = model(batch.texts, batch.types)
            for i, episode in enumerate(batch.episodes):
                for decision, page, matched in wanted[id(episode)]:
                    readouts.append(states[i, episode.places[decision]].cpu())
                    wishes.append(table.add(episode.trajectory.instruction))
                    rows.append(page)
                    features.append(matched)
    width = max(len(page) for page in rows)
    padded = torch.tensor([[*page, *[-1] * (width - len(page))] for page in rows])
    matches = torch.nn.utils.rnn.pad_sequence(features, batch_first=True)
    return Clicks(torch.stack(readouts).clone(), table.vectors[wishes], padded, matches)


def train(
    settings: RetrieverSettings, command: Sequence[str], embedder: Embedder | None = None
) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    model, state_meta = load_model(settings.state)
    embedder = embedder or _embedder()
    require_match(settings.state, state_meta, "embedder", embedder.name, "set its embedder")
    training = read_trajectories(settings.data)
    heldout = read_trajectories(settings.heldout) if settings.heldout else []
    run = RunDirectory(settings.run, {**provenance(command), **_args(settings)})
    table = TextTable()
    parts = [*split_by_group(training, settings.validation, settings.seed), heldout]
    sets = [[sequence(t, table) for t in part] for part in parts]
    pages = [[click_pages(e, table) for e in part] for part in sets]
    for part in parts:
        for trajectory in part:
            table.add(trajectory.instruction)
    table.embed(embedder)
    if not any(pages[0]):
        raise UserError(f"'{settings.data}' holds no click on a page whose affordances are known")
    model.to(device)
    data = [gather(e, p, model, table, device) if e else None for e, p in zip(sets, pages)]  # noqa: B905
    torch.manual_seed(settings.seed)
    sizes = {
        "d_state": model.d_state, "d_text": embedder.dimension, "features": len(FEATURES)
    }  # fmt: skip
    projection = make_projection(**sizes).to(device)
    fitted, validation = data[0], data[1]
    if fitted is None or validation is None:
        raise UserError(
            f"'{settings.data}' is too small to split by product: collect more episodes"
        )

    def train_epoch(
        optimizer: torch.optim.Optimizer, generator: torch.Generator
    ) -> dict[str, float]:
        losses = []
        order = torch.randperm(len(fitted), generator=generator)
        for rows in torch.split(order, settings.batch):
            readouts = dropout(fitted.readouts[rows], settings.drop_inputs).to(device)
            query = projection(readouts, fitted.wishes[rows].to(device))
            chosen, matched = _with_negatives(fitted, rows, settings.negatives, table, generator)
            scores = torch.einsum("bd,bkd->bk", query, table.vectors[chosen].to(device))
            weights = projection.feature_weights(readouts)  # type: ignore[operator]
            scores = scores + torch.einsum("bf,bkf->bk", weights, matched.to(device))
            loss = (settings.margin + scores[:, 1:] - scores[:, :1]).relu().mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        return {"train_loss": mean(losses)}

    def validate() -> dict[str, float]:
        ranks = _ranks(projection, validation, table, device)
        return {"rank_accuracy": float((ranks < 1).float().mean())}

    history = fit(
        projection, folder=run.folder, epochs=settings.epochs, patience=settings.patience,
        seed=settings.seed, learning_rate=settings.learning_rate, train_epoch=train_epoch,
        validate=validate, metric="rank_accuracy",
    )  # fmt: skip
    reported = data[2] or validation
    ranks = _ranks(projection, reported, table, device)
    row: dict[str, Any] = {"agent": "trained", "n": len(ranks)}
    row |= {f"recall@{k}": float((ranks < k).float().mean()) for k in (1, 3, 5)}
    row["rank_accuracy"] = row["recall@1"]
    summary = run.summarise([row], [])
    meta = {
        "kind": "retriever", "architecture": sizes, "embedder": embedder.name,
        "state_sha256": state_meta["sha256"], "state": state_meta["architecture"]["kind"],
        "data": {"name": Path(settings.data).name, "sha256": file_hash(settings.data)},
        "metrics": row, "epochs": len(history) - 1, "seed": settings.seed, **provenance(command),
    }  # fmt: skip
    save_weights(settings.checkpoint, projection.state_dict(), meta)
    return summary


def _with_negatives(
    clicks: Clicks, rows: Tensor, count: int, table: TextTable, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return chunk rows (B, 1 + count) and features: the clicked, its page's, then other pages'.

    Chunks of other pages have nothing in common with the wish.
    """
    pages = clicks.pages[rows]
    width = min(pages.shape[1], 1 + count)
    chosen = torch.full((len(rows), 1 + count), -1)
    chosen[:, :width] = pages[:, :width]
    features = torch.zeros(*chosen.shape, clicks.features.shape[-1])
    features[:, :width] = clicks.features[rows][:, :width]
    known = clicks.pages[clicks.pages >= 0]
    drawn = known[torch.randint(len(known), chosen.shape, generator=generator)]
    filled = torch.where(chosen < 0, drawn, chosen)
    # A drawn chunk that happens to be the clicked one is no negative: it takes its neighbour.
    clash = filled[:, 1:] == filled[:, :1]
    filled[:, 1:] = torch.where(clash, (filled[:, 1:] + 1) % len(table.vectors), filled[:, 1:])
    return filled, features


def _ranks(
    projection: torch.nn.Module, clicks: Clicks, table: TextTable, device: torch.device
) -> Tensor:
    with torch.inference_mode():
        query = projection(clicks.readouts.to(device), clicks.wishes.to(device)).cpu()
        chunks = table.vectors[clicks.pages.clamp_min(0)]
        scores = torch.einsum("bd,bkd->bk", query, chunks)
        weights = projection.feature_weights(clicks.readouts.to(device)).cpu()  # type: ignore[operator]
        scores = scores + torch.einsum("bf,bkf->bk", weights, clicks.features)
        scores[clicks.pages < 0] = -2.0
        ranks: Tensor = (scores[:, 1:] >= scores[:, :1]).sum(-1)
        return ranks


if __name__ == "__main__":
    command_line("trainers.state.retriever", __doc__, RetrieverSettings, train)
