"""Imitation: train the ``policy`` actor to do as the expert did, whatever builder made its context.

Each episode is read by a builder and at a budget drawn at random, so that no builder is favoured. The
negatives are hard ones: a decision is a choice among everything that the page offers, which after a
search for the wish are its look-alikes, and half of the episodes open the best-looking wrong product
first (to learn how to leave it: that click itself is not imitated). Products are split between
training, validation and report.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from tqdm import tqdm

from envs.webshop.actions import OPENED
from nodes.act.shop.candidates import (
    CANDIDATE_FEATURES,
    ENCODER,
    PAGE_FEATURES,
    Encoded,
    encode,
)
from nodes.act.shop.policy import make_scorer
from stores.assets.weights import save_weights
from stores.errors import UserError
from stores.runs import mean, standard_error
from stores.text import words_of
from stores.traces.trajectories import Trajectory
from trainers.episodes import Readers, decisions_of, read_sides, resources_of
from trainers.fitting import Figures, descend, fit, pick_device
from trainers.settings import ActorSettings, open_run, result
from trainers.webshop.rollout import collate, sized_batches

_ENOUGH = 0.5  # shared words (Jaccard) for a query of ours to stand for the expert's


@dataclass(frozen=True)
class Choice:
    """A decision: the candidates, and the index of the chosen one. ``reader`` names the builder."""

    seen: Encoded
    index: int
    reader: str


def choices(
    trajectories: Sequence[Trajectory], readers: Readers, seed: int, name: str = "contexts"
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
            seen = encode(walk.look(page), step)
            index = match(action, seen.actions)
            if index is not None and not _is_mistake(action, trajectory):
                found.append(Choice(seen, index, reader.name))
            walk.took(page, action, pages[min(step + 1, len(pages) - 1)][0])
    return found


def _is_mistake(action: str, trajectory: Trajectory) -> bool:
    """Say whether the expert opened a wrong product on purpose: to be seen, not to be imitated."""
    if trajectory.agent.get("kind") == "rule":
        return False  # it did not know better, and of what it read this was the best
    opened = OPENED.fullmatch(action)
    wanted = str(trajectory.agent.get("asin", "")).lower()
    return bool(opened and wanted) and action != f"click[{wanted}]"


def match(action: str, candidates: Sequence[str]) -> int | None:
    """Return the candidate that stands for ``action``: itself, or the query most like it."""
    if action in candidates:
        return candidates.index(action)
    if not action.startswith("search["):
        return None
    wanted = {*words_of(action[7:-1])}
    queries = {
        i: {*words_of(text[7:-1])}
        for i, text in enumerate(candidates)
        if text.startswith("search[")
    }
    alike = {i: len(words & wanted) / max(len(words | wanted), 1) for i, words in queries.items()}
    best = max(alike, key=alike.__getitem__, default=None)
    return best if best is not None and alike[best] >= _ENOUGH else None


def train(settings: ActorSettings, command: Sequence[str]) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    sides = read_sides(settings)
    resources = resources_of(settings, sides, settings.updater)
    run = open_run(settings, command)
    readers = Readers(settings.builders, resources)
    names = ("train", "validation", "heldout")
    data = [choices(sides[i], readers, settings.seed + i, names[i]) for i in range(3)]
    if not data[0] or not data[1]:
        raise UserError(f"'{settings.data}' holds too few decisions: record more episodes")
    torch.manual_seed(settings.seed)
    sizes = {"d_row": data[0][0].seen.rows.shape[1], "d_page": len(PAGE_FEATURES)}
    sizes["hidden"] = settings.hidden
    scorer = make_scorer(**sizes).to(device)

    def train_epoch(optimizer: Optimizer, generator: Generator) -> Iterator[Figures]:
        for places in sized_batches([c.seen for c in data[0]], settings.batch, generator):
            loss = cross_entropy(*_logits(scorer, [data[0][i] for i in places], device))
            yield {"train_loss": descend(scorer, loss, optimizer)}

    def validate() -> dict[str, float]:
        right, loss = hits(scorer, data[1], device)
        return {"accuracy": mean(right), "validation_loss": mean(loss)}

    history = fit(scorer, settings, "accuracy", train_epoch, validate)
    rows = _rows(scorer, data[2] or data[1], device)
    meta: dict[str, Any] = {
        "kind": "policy", "architecture": sizes, "encoder": ENCODER, "world": resources.view.name,
        "features": {"row": list(CANDIDATE_FEATURES), "page": list(PAGE_FEATURES)},
        "embedder": None,  # the features hold no vectors
        "trained": "imitation", "builders": settings.builders,
        **result(settings, command, len(history) - 1, rows[0]),
    }  # fmt: skip
    meta["data"]["name"] = Path(settings.data).parent.name
    save_weights(settings.checkpoint, scorer.state_dict(), meta, half=False)
    return run.summarise(rows, [])


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
        groups.setdefault(f"chose {_what(choice)}", []).append(hit)
        groups.setdefault(f"read by {choice.reader}", []).append(hit)
    return [
        {"agent": name, "n": len(own), "accuracy": mean(own), "accuracy_se": standard_error(own)}
        for name, own in groups.items()
    ]


def _what(choice: Choice) -> str:
    row = choice.seen.rows[choice.index]
    return next(n for n, value in zip(CANDIDATE_FEATURES, row, strict=False) if value)
