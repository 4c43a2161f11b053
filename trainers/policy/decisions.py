"""Encoded decisions: what the expert did, as the policy will read it; batches of candidates."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from envs.protocols import Observation
from nodes.act.shop.candidates import Embed, Encoded, encode
from nodes.act.shop.reading import words_of
from nodes.act.shop.rule import OPENED
from stores.traces.trajectories import Trajectory
from trainers.episodes.walk import Readers

_ENOUGH = 0.5  # shared words (Jaccard) for a query of ours to stand for the expert's


@dataclass(frozen=True)
class Choice:
    """A decision: the candidates, and the index of the chosen one. ``kind`` names the reader."""

    seen: Encoded
    index: int
    kind: str
    step: int
    weight: float = 1.0


def choices(
    trajectories: Sequence[Trajectory], readers: Readers, seed: int, copies: int = 1,
    embed: Embed | None = None, name: str = "contexts",
) -> Iterator[list[Choice]]:  # fmt: skip
    """Yield the readable decisions of each episode, read by ``copies`` readers drawn by ``seed``.

    What a reader lost cannot be imitated, so a decision whose action is not readable is left out;
    the episode goes on all the same, as it would for an actor.
    """
    bar = tqdm(trajectories, desc=name, unit="episode", disable=None)
    for i, trajectory in enumerate(bar):
        for copy in range(copies):
            rng = random.Random(f"{seed} {i} {copy}")
            yield list(read_choices(trajectory, readers, rng, embed))


def read_choices(
    trajectory: Trajectory, readers: Readers, rng: random.Random, embed: Embed | None = None
) -> Iterator[Choice]:
    """Yield the readable decisions of one episode through one reader."""
    reader = readers.draw(rng)
    walk = readers.start(reader, trajectory.instruction)
    pages = pages_of(trajectory)
    for i, (page, action) in enumerate(pages):
        seen = encode(walk.look(page), walk.step, embed)
        index = match(action, seen.actions)
        if index is not None and not _is_mistake(action, trajectory):
            yield Choice(seen, index, reader.name, walk.step)
        walk.took(page, action, pages[i + 1][0] if i + 1 < len(pages) else page)


def _is_mistake(action: str, trajectory: Trajectory) -> bool:
    """Say whether the expert opened a wrong product on purpose: to be seen, not to be imitated."""
    opened = OPENED.fullmatch(action)
    wanted = str(trajectory.agent.get("asin", "")).lower()
    return bool(opened and wanted) and action != f"click[{wanted}]"


def pages_of(trajectory: Trajectory) -> list[tuple[Observation, str]]:
    """Return each decision of ``trajectory``: (the page, the action taken there)."""
    found: list[tuple[Observation, str]] = []
    affordances = iter(trajectory.actions)
    page: Observation | None = None
    for event in trajectory.events:
        if event.kind == "OBS":
            page = Observation(event.text, next(affordances, ()))
        elif event.kind == "ACT" and page is not None:
            found.append((page, event.text))
    return found


def match(action: str, candidates: Sequence[str]) -> int | None:
    """Return the candidate that stands for ``action``: itself, or the query most like it."""
    if action in candidates:
        return candidates.index(action)
    if not action.startswith("search["):
        return None
    wanted = set(words_of(action[7:-1]))
    best, place = 0.0, None
    for i, candidate in enumerate(candidates):
        if candidate.startswith("search["):
            words = set(words_of(candidate[7:-1]))
            alike = len(words & wanted) / max(len(words | wanted), 1)
            if alike > best:
                best, place = alike, i
    return place if best >= _ENOUGH else None


def collate(seen: Sequence[Encoded], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Pad pages to the largest: rows (B, n, d), page (B, d), absent (B, n)."""
    most = max(len(one.actions) for one in seen)
    rows = np.zeros((len(seen), most, seen[0].rows.shape[1]), dtype=np.float32)
    absent = np.ones((len(seen), most), dtype=bool)
    for i, one in enumerate(seen):
        rows[i, : len(one.actions)] = one.rows
        absent[i, : len(one.actions)] = False
    page = np.stack([one.page for one in seen])
    return tuple(torch.from_numpy(x).to(device) for x in (rows, page, absent))  # type: ignore[return-value]


def sized_batches(
    seen: Sequence[Encoded], size: int, generator: torch.Generator
) -> Iterator[list[int]]:
    """Yield every index once, in batches of pages of like size (padding is what costs), shuffled."""
    order = torch.randperm(len(seen), generator=generator).tolist()
    span = 32 * size
    batches: list[list[int]] = []
    for at in range(0, len(order), span):
        part = sorted(order[at : at + span], key=lambda i: len(seen[i].actions))
        batches += [part[i : i + size] for i in range(0, len(part), size)]
    for place in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[place]
