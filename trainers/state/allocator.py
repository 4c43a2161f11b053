"""Train the learned allocator: how much detail each chunk needs for the expert's next action.

python -m trainers.state.allocator --config configs/train/allocator.yaml

A chunk with a share of the room is read as a mixture of its bare affordances' and its full text's
embeddings (and match features), by how much of its text the share pays for. The frozen retriever reads
the mixtures and must still pick the chunk that the expert clicked, at budgets drawn from 5 to 60 % of
the page: so the weights learn to spend tokens where the choice hangs on them. Reported: how often it
picks the expert's chunk (action sufficiency) with learned and with uniform shares, at fixed budgets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout

from envs.protocols import Observation
from nodes.build_context.detail import chunk_ladder
from nodes.build_context.match import SEEN_BARE
from nodes.build_context.query import make_projection
from nodes.build_context.render import describe, render, text_of
from nodes.build_context.wanted import wanted_of
from nodes.build_context.weigh import make_weigher
from nodes.observe.webshop import chunk_page
from nodes.protocols import Embedder
from nodes.update_state.state_model import load_model
from stores.assets.weights import load_weights, require_match, save_weights
from stores.errors import UserError
from stores.runs import RunDirectory, mean, provenance, standard_error
from stores.tokens import count_tokens
from stores.traces.trajectories import file_hash, read_trajectories
from trainers.episodes.split import split_by_group
from trainers.fitting import fit, pick_device
from trainers.settings import Settings, command_line
from trainers.state.data import Sequenced, TextTable, sequence
from trainers.state.next_action import _args, _embedder
from trainers.state.retriever import Clicks, click_pages, gather

#: How sharply the frozen reader chooses (inverse temperature of its cosines).
_SHARPNESS = 20.0
_FRACTIONS = (0.1, 0.25, 0.5)


class AllocatorSettings(Settings):
    """Settings of the allocator's training."""

    state: str = Field(description="the state model's checkpoint")
    retriever: str = Field(description="the retriever's checkpoint, which reads the mixtures")
    drop_inputs: float = Field(default=0.1, ge=0, lt=1)
    direct: float = Field(default=0.3, ge=0, description="weight of foreseeing the clicked chunk")


@dataclass(frozen=True)
class Detail:
    """For each row of the text table that is a chunk: its bare text's row and its tokens."""

    bare: Tensor
    tokens: Tensor


def details(episodes: Sequence[Sequenced], table: TextTable) -> dict[int, tuple[int, int]]:
    """Return {row of a chunk: (row of its bare text, tokens that its detail has)}."""
    found: dict[int, tuple[int, int]] = {}
    for episode in episodes:
        trajectory = episode.trajectory
        shown = [event for event in trajectory.events if event.kind == "OBS"]
        wanted = wanted_of(trajectory.instruction)
        for event, actions in zip(shown, trajectory.actions, strict=False):
            for chunk in chunk_page(Observation(event.text, actions)):
                whole = render(chunk)
                if not whole or (row := table.add(describe(chunk))) in found:
                    continue
                bare = text_of(chunk_ladder(chunk.kind, whole, wanted).show(())).strip()
                size = count_tokens(text_of(whole)) - count_tokens(bare)
                found[row] = (table.add(bare or chunk.kind), max(size, 1))
    return found


def train(
    settings: AllocatorSettings, command: Sequence[str], embedder: Embedder | None = None
) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    model, state_meta = load_model(settings.state)
    tensors, meta = load_weights(settings.retriever, "retriever")
    fix = "train the retriever again for this state model"
    require_match(settings.retriever, meta, "state_sha256", state_meta["sha256"], fix)
    reader = make_projection(**meta["architecture"])
    reader.load_state_dict(tensors)
    reader.to(device).eval()
    embedder = embedder or _embedder()
    training = read_trajectories(settings.data)
    heldout = read_trajectories(settings.heldout) if settings.heldout else []
    run = RunDirectory(settings.run, {**provenance(command), **_args(settings)})
    table = TextTable()
    parts = [*split_by_group(training, settings.validation, settings.seed), heldout]
    sets = [[sequence(t, table) for t in part] for part in parts]
    pages = [[click_pages(e, table) for e in part] for part in sets]
    known: dict[int, tuple[int, int]] = {}
    for part in sets:
        known |= details(part, table)
    for trajectory in (t for part in parts for t in part):
        table.add(trajectory.instruction)
    table.embed(embedder)
    bare = torch.arange(len(table.vectors))
    tokens = torch.ones(len(table.vectors))
    for row, (bare_row, size) in known.items():
        bare[row], tokens[row] = bare_row, size
    detail = Detail(bare, tokens)
    model.to(device)
    data = [gather(e, p, model, table, device) if e else None for e, p in zip(sets, pages)]  # noqa: B905
    fitted, validation = data[0], data[1]
    if fitted is None or validation is None:
        raise UserError(
            f"'{settings.data}' is too small to split by product: collect more episodes"
        )
    torch.manual_seed(settings.seed)
    sizes = {"d_state": model.d_state, "d_text": embedder.dimension}
    weigher = make_weigher(**sizes).to(device)
    seen_bare = torch.tensor(SEEN_BARE, device=device)

    def picked(clicks: Clicks, rows: Tensor, fraction: Tensor, shares: Tensor | None) -> Tensor:
        """Return the reader's logits (B, m); ``shares`` None is the weigher's own."""
        readouts = clicks.readouts[rows].to(device)
        wishes = clicks.wishes[rows].to(device)
        page = clicks.pages[rows]
        absent = (page < 0).to(device)
        chunks = table.vectors[page.clamp_min(0)].to(device)
        if shares is None:
            shares = _logits(weigher, readouts, wishes, chunks, absent).softmax(-1)
        size = detail.tokens[page.clamp_min(0)].to(device).masked_fill(absent, 0.0)
        budget = fraction.to(device) * size.sum(-1)
        paid = (shares * budget.unsqueeze(-1) / size.clamp_min(1.0)).clamp(0.0, 1.0)
        plain = table.vectors[detail.bare[page.clamp_min(0)]].to(device)
        mixed = paid.unsqueeze(-1) * chunks + (1 - paid.unsqueeze(-1)) * plain
        mixed = torch.nn.functional.normalize(mixed, dim=-1)
        scores: Tensor = torch.einsum("bd,bkd->bk", reader(readouts, wishes), mixed)
        weights = reader.feature_weights(readouts)  # type: ignore[operator]
        shown = torch.where(seen_bare, 1.0, paid.unsqueeze(-1))
        matched = clicks.features[rows].to(device) * shown
        scores = scores + torch.einsum("bf,bkf->bk", weights, matched)
        return (_SHARPNESS * scores).masked_fill(absent, -1e4)

    def train_epoch(
        optimizer: torch.optim.Optimizer, generator: torch.Generator
    ) -> dict[str, float]:
        losses = []
        order = torch.randperm(len(fitted), generator=generator)
        for rows in torch.split(order, settings.batch):
            fraction = 0.05 + 0.55 * torch.rand(len(rows), generator=generator)
            first = torch.zeros(len(rows), dtype=torch.long, device=device)
            page = fitted.pages[rows]
            absent = (page < 0).to(device)
            readouts = dropout(fitted.readouts[rows], settings.drop_inputs).to(device)
            chunks = table.vectors[page.clamp_min(0)].to(device)
            own = _logits(weigher, readouts, fitted.wishes[rows].to(device), chunks, absent)
            loss = cross_entropy(picked(fitted, rows, fraction, own.softmax(-1)), first)
            loss = loss + settings.direct * cross_entropy(own, first)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        return {"train_loss": mean(losses)}

    def sufficiency(clicks: Clicks, fraction: float, is_learned: bool) -> list[float]:
        with torch.inference_mode():
            rows = torch.arange(len(clicks))
            present = (clicks.pages >= 0).float().to(device)
            even = None if is_learned else present / present.sum(-1, keepdim=True)
            logits = picked(clicks, rows, torch.full((len(rows),), fraction), even)
            return [float(hit) for hit in logits.argmax(-1) == 0]

    def validate() -> dict[str, float]:
        return {"sufficiency": mean([mean(sufficiency(validation, f, True)) for f in _FRACTIONS])}

    history = fit(
        weigher, folder=run.folder, epochs=settings.epochs, patience=settings.patience,
        seed=settings.seed, learning_rate=settings.learning_rate, train_epoch=train_epoch,
        validate=validate, metric="sufficiency",
    )  # fmt: skip
    reported = data[2] or validation
    rows: list[dict[str, Any]] = []
    for name, is_learned in (("learned", True), ("uniform", False)):
        told: dict[str, Any] = {"agent": name, "n": len(reported)}
        for fraction in _FRACTIONS:
            hits = sufficiency(reported, fraction, is_learned)
            key = f"sufficiency@{fraction:.0%}"
            told |= {key: mean(hits), f"{key}_se": standard_error(hits)}
        rows.append(told)
    summary = run.summarise(rows, [])
    described = {
        "kind": "allocator", "architecture": sizes, "embedder": embedder.name,
        "state_sha256": state_meta["sha256"], "state": state_meta["architecture"]["kind"],
        "data": {"name": Path(settings.data).name, "sha256": file_hash(settings.data)},
        "metrics": rows[0], "epochs": len(history) - 1, "seed": settings.seed,
        **provenance(command),
    }  # fmt: skip
    save_weights(settings.checkpoint, weigher.state_dict(), described)
    return summary


def _logits(
    weigher: torch.nn.Module, readouts: Tensor, wishes: Tensor, chunks: Tensor, absent: Tensor
) -> Tensor:
    logits: Tensor = weigher(readouts, wishes, chunks)
    return logits.masked_fill(absent, -1e4)


if __name__ == "__main__":
    command_line("trainers.state.allocator", __doc__, AllocatorSettings, train)
