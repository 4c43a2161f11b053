"""Imitation: train the ``policy`` actor to do as the expert did, whatever builder made its context.

python -m trainers.episodes.goals --data ../shared/data/webshop --out runs/trajectories/practice
python -m trainers.policy.imitation --config configs/train/actor.yaml
python -m trainers.policy.imitation --config actor_sample          (the sample catalogue, minutes)

Each episode is read ``copies`` times, by builders and at budgets drawn at random, so that no builder
is favoured. The negatives are hard ones: a decision is a choice among everything that the page offers,
which after a search for the wish are its look-alikes, and half of the episodes open the best-looking
wrong product first (to learn how to leave it: that click itself is not imitated). Products are split
between training, validation and report.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch.nn.functional import cross_entropy

from nodes.act.shop.candidates import (
    CANDIDATE_FEATURES,
    ENCODER,
    PAGE_FEATURES,
    SIMILARITIES,
    Embed,
)
from nodes.act.shop.scorer import make_scorer
from stores.assets.weights import save_weights
from stores.errors import UserError
from stores.runs import RunDirectory, mean, provenance, shown_config, standard_error
from stores.traces.trajectories import file_hash, read_trajectories
from trainers.episodes.split import split_by_group
from trainers.episodes.walk import Readers
from trainers.fitting import fit, pick_device
from trainers.policy.decisions import Choice, choices, collate, sized_batches
from trainers.settings import Settings, command_line


class ActorSettings(Settings):
    """Settings of the imitation."""

    builders: dict[str, float] = Field(
        default={"full": 1, "window": 1, "compress:allocator=uniform": 1},
        description="what makes the contexts, KIND or KIND:FIELD=VALUE,…, and how often",
    )
    updater: str = Field(
        default="none", description="whose state the builders read: none, gru or ssm"
    )
    embedder: str = Field(default="minilm", description="that of the builders")
    copies: int = Field(default=1, ge=1, description="how many readers read each episode")
    low: int = Field(default=80, ge=1, description="smallest budget in tokens")
    high: int = Field(default=2000, ge=1, description="largest budget in tokens")
    hidden: int = Field(default=96, ge=8)
    similar: bool = Field(
        default=False, description="add sentence-embedding similarities of titles"
    )


def train(settings: ActorSettings, command: Sequence[str]) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    training = read_trajectories(settings.data)
    heldout = read_trajectories(settings.heldout) if settings.heldout else []
    run = RunDirectory(settings.run, {**provenance(command), **_args(settings)})
    readers = Readers(
        settings.builders, settings.updater, settings.low, settings.high, settings.embedder
    )
    embed: Embed | None = readers.resources.embedder.embed if settings.similar else None
    parts = [*split_by_group(training, settings.validation, settings.seed), heldout]
    names, copies = ("train", "validation", "heldout"), (settings.copies, 1, 1)
    data = [
        [
            c
            for episode in choices(part, readers, settings.seed + i, n, embed, name)
            for c in episode
        ]
        for i, (part, n, name) in enumerate(zip(parts, copies, names, strict=True))
    ]
    if not data[0] or not data[1]:
        raise UserError(
            f"'{settings.data}' is too small to split by product: collect more episodes"
        )
    torch.manual_seed(settings.seed)
    sizes = {"d_row": data[0][0].seen.rows.shape[1], "d_page": len(PAGE_FEATURES)}
    sizes["hidden"] = settings.hidden
    scorer = make_scorer(**sizes).to(device)

    def train_epoch(
        optimizer: torch.optim.Optimizer, generator: torch.Generator
    ) -> dict[str, float]:
        losses = []
        for places in sized_batches([c.seen for c in data[0]], settings.batch, generator):
            batch = [data[0][i] for i in places]
            rows, page, absent = collate([c.seen for c in batch], device)
            wanted = torch.tensor([c.index for c in batch], device=device)
            loss = cross_entropy(scorer(rows, page, absent), wanted)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return {"train_loss": mean(losses)}

    def validate() -> dict[str, float]:
        right, loss = hits(scorer, data[1], device)
        return {"accuracy": mean(right), "validation_loss": mean(loss)}

    history = fit(
        scorer, folder=run.folder, epochs=settings.epochs, patience=settings.patience,
        seed=settings.seed, learning_rate=settings.learning_rate, train_epoch=train_epoch,
        validate=validate, metric="accuracy",
    )  # fmt: skip
    rows = _rows(scorer, data[2] or data[1], device)
    summary = run.summarise(rows, [])
    meta = {
        "kind": "policy", "architecture": sizes, "encoder": ENCODER,
        "features": {"row": [*CANDIDATE_FEATURES, *(SIMILARITIES if embed else ())],
                     "page": list(PAGE_FEATURES)},
        "embedder": readers.resources.embedder.name if embed else None,
        "trained": "imitation", "builders": settings.builders,
        "data": {"name": Path(settings.data).parent.name, "sha256": file_hash(settings.data)},
        "metrics": rows[0], "epochs": len(history) - 1, "seed": settings.seed,
        **provenance(command),
    }  # fmt: skip
    save_weights(settings.checkpoint, scorer.state_dict(), meta, half=False)
    return summary


def hits(
    scorer: torch.nn.Module, decisions: Sequence[Choice], device: torch.device
) -> tuple[list[float], list[float]]:
    """Return, for each decision, whether the expert's choice scores highest, and its loss."""
    right: list[float] = []
    losses: list[float] = []
    with torch.inference_mode():
        for at in range(0, len(decisions), 256):
            batch = decisions[at : at + 256]
            rows, page, absent = collate([c.seen for c in batch], device)
            wanted = torch.tensor([c.index for c in batch], device=device)
            logits = scorer(rows, page, absent)
            right += (logits.argmax(-1) == wanted).float().tolist()
            losses += cross_entropy(logits, wanted, reduction="none").tolist()
    return right, losses


def _rows(
    scorer: torch.nn.Module, decisions: Sequence[Choice], device: torch.device
) -> list[dict[str, Any]]:
    """Return summary rows: accuracy over all held-out decisions, by what was chosen, by builder."""
    right, _ = hits(scorer, decisions, device)
    groups: dict[str, list[float]] = {"all decisions": right}
    for choice, hit in zip(decisions, right, strict=True):
        groups.setdefault(f"chose {_what(choice)}", []).append(hit)
        groups.setdefault(f"read by {choice.kind}", []).append(hit)
    return [
        {"agent": name, "n": len(own), "accuracy": mean(own), "accuracy_se": standard_error(own)}
        for name, own in groups.items()
    ]


def _what(choice: Choice) -> str:
    row = choice.seen.rows[choice.index]
    return next(n for n, value in zip(CANDIDATE_FEATURES, row, strict=False) if value)


def _args(settings: ActorSettings) -> dict[str, Any]:
    files = {"data": settings.data, "heldout": settings.heldout}
    hashes = {name: file_hash(path) for name, path in files.items() if path}
    return {"settings": shown_config(settings.model_dump()), "data": hashes, "seed": settings.seed}


if __name__ == "__main__":
    command_line("trainers.policy.imitation", __doc__, ActorSettings, train)
