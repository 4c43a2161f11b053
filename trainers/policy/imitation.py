"""Imitation: train the ``policy`` actor to do as the expert did, whatever builder made its context.

Each episode is read by a builder and at a budget drawn at random, so that no builder is favoured.
The negatives are hard ones: a decision is a choice among everything that the page offers. What an
expert did by mistake, to show how one comes back, is not imitated. Groups (``group``) are split
between training, validation and report. The encoder turns contexts into numbers
(``nodes.act.encoding``).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from stategate.nodes.act.encoding import Encoded, Encoder, encoder
from stategate.nodes.act.policy import make_scorer
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from stategate.stores.runs import mean, standard_error
from stategate.stores.traces.trajectories import Trajectory
from stategate.trainers.episodes import Readers, decisions_of, read_sides, resources_of
from stategate.trainers.policy.rollout import collate, sized_batches
from stategate.trainers.settings import ActorSettings, files_of, open_run, result
from stategate.trainers.trainer import Trainer, pick_device


@dataclass(frozen=True)
class Choice:
    """A decision: the candidates, the index of the chosen one and its class in the world's view.

    ``reader`` names the builder.
    """

    seen: Encoded
    index: int
    reader: str
    sort: str


def choices(
    trajectories: Sequence[Trajectory],
    readers: Readers,
    reading: Encoder,
    seed: int,
    name: str = "contexts",
) -> list[Choice]:
    """Return the readable decisions of all episodes, each read by a reader drawn by ``seed``.

    What a reader lost cannot be imitated, so a decision whose action is not readable is left out;
    the episode goes on all the same, as it would for an actor.
    """
    found: list[Choice] = []
    for i, trajectory in enumerate(tqdm(trajectories, desc=name, unit="episode", disable=None)):
        pages = decisions_of(trajectory)
        reader = readers.draw(random.Random(f"{seed} {i} 0"))
        walk = readers.start(reader, trajectory.instruction)
        for step, (page, action) in enumerate(pages):
            seen = reading.encode(walk.look(page), step, readers.resources.profile)
            index = seen.index_of(action)
            if index is not None and action not in trajectory.agent.get("mistakes", ()):
                sort = readers.resources.view.actions.class_of(page.text, action)
                found.append(Choice(seen, index, reader.name, sort))
            walk.took(page, action, pages[min(step + 1, len(pages) - 1)][0])
    return found


def train(settings: ActorSettings) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    sides = read_sides(settings)
    resources = resources_of(settings, sides, settings.updater)
    run = open_run(settings)
    reading = encoder(settings.encoder)
    readers = Readers(settings.builders, resources, settings.low, settings.high, settings.memory)
    names = ("train", "validation", "heldout")
    fitted, validation, heldout = (
        choices(side, readers, reading, settings.seed + i, name)
        for i, (side, name) in enumerate(zip(sides, names, strict=True))
    )
    if not fitted or not validation:
        raise UserError(f"'{settings.data}' holds too few decisions: record more episodes")
    torch.manual_seed(settings.seed)
    sizes = {"d_row": fitted[0].seen.rows.shape[1], "d_page": len(reading.page_features)}
    sizes["hidden"] = settings.hidden
    scorer = make_scorer(**sizes).to(device)

    def batches(generator: Generator) -> Iterator[list[Choice]]:
        for places in sized_batches([c.seen for c in fitted], settings.batch, generator):
            yield [fitted[i] for i in places]

    def loss(batch: list[Choice]) -> Tensor:
        return cross_entropy(*_logits(scorer, batch, device))

    def metric() -> dict[str, float]:
        right, losses = hits(scorer, validation, device)
        return {"accuracy": mean(right), "validation_loss": mean(losses)}

    history = Trainer(batches, scorer, loss, metric).fit(settings)
    rows = _rows(scorer, heldout or validation, device)
    meta: dict[str, Any] = {
        **policy_meta(reading, sizes, resources.view.name),
        "trained": "imitation",
        "builders": settings.builders,
        **result(settings, len(history) - 1, rows[0]),
    }
    meta["data"]["name"] = Path(files_of(settings.data)[0]).parent.name
    save_weights(settings.checkpoint, scorer.state_dict(), meta, half=False)
    return run.summarise(rows, [])


def policy_meta(reading: Encoder, sizes: dict[str, int], world: str) -> dict[str, Any]:
    """Return what a policy's checkpoint says of its architecture, features and worlds."""
    return {
        "kind": "policy",
        "architecture": sizes,
        "encoder": reading.version,
        "world": world,
        "features": {"row": list(reading.row_features), "page": list(reading.page_features)},
        "embedder": None,  # the features hold no vectors
    }


def hits(
    scorer: torch.nn.Module, decisions: Sequence[Choice], device: torch.device
) -> tuple[list[float], list[float]]:
    """Return, for each decision, whether the expert's choice scores highest, and its loss."""
    right: list[float] = []
    losses: list[float] = []
    with torch.inference_mode():
        for at in range(0, len(decisions), 256):
            logits, wanted = _logits(scorer, decisions[at : at + 256], device)
            right += (logits.argmax(-1) == wanted).float().tolist()
            losses += cross_entropy(logits, wanted, reduction="none").tolist()
    return right, losses


def _logits(
    scorer: torch.nn.Module, decisions: Sequence[Choice], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the scores of the candidates (B, n) and the chosen ones (B,)."""
    rows, page, absent = collate([c.seen for c in decisions], device)
    return scorer(rows, page, absent), torch.tensor([c.index for c in decisions], device=device)


def _rows(
    scorer: torch.nn.Module, decisions: Sequence[Choice], device: torch.device
) -> list[dict[str, Any]]:
    """Return summary rows: accuracy over all held-out decisions, by what was chosen, by builder."""
    right, _ = hits(scorer, decisions, device)
    groups: dict[str, list[float]] = {"all decisions": right}
    for choice, hit in zip(decisions, right, strict=True):
        groups.setdefault(f"chose {choice.sort}", []).append(hit)
        groups.setdefault(f"read by {choice.reader}", []).append(hit)
    return [
        {"agent": name, "n": len(own), "accuracy": mean(own), "accuracy_se": standard_error(own)}
        for name, own in groups.items()
    ]
