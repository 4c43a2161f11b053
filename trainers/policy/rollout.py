"""Encoded pages as batches, and episodes that a scorer plays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import Observation, Session, World
from stategate.nodes.act.encoding import Encoded, Encoder
from stategate.trainers.episodes import Reader, Readers, Teacher, Walk, record_episode


def collate(seen: Sequence[Encoded], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Pad pages to the largest: rows (B, n, d), page (B, d), absent (B, n)."""
    sizes = torch.tensor([len(one.actions) for one in seen])
    rows = pad_sequence([torch.from_numpy(one.rows) for one in seen], batch_first=True)
    page = torch.from_numpy(np.stack([one.page for one in seen]))
    absent = torch.arange(rows.shape[1]) >= sizes.unsqueeze(1)
    return rows.to(device), page.to(device), absent.to(device)


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


@dataclass(frozen=True)
class Start:
    """An episode to play: a task, in which of a course's worlds (by name), and how it is read.

    Where a teacher looks on, a step is its own with the chance ``helped``.
    """

    task: Mapping[str, Any]
    world: str
    reader: Reader
    helped: float = 0.0


@dataclass
class Rollout:
    """A played episode: what was seen and chosen at each decision.

    ``good`` are, for each, the candidates that a teacher calls good; where it helped, it took one of
    them in place of what was chosen.
    """

    seen: list[Encoded] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)
    good: list[tuple[int, ...]] = field(default_factory=list)
    reward: float = 0.0
    steps: int = 0


@dataclass(frozen=True)
class Player:
    """Plays episodes with a scorer: worlds by name, how pages are read, and a limit."""

    worlds: Mapping[str, World]
    readers: Readers
    reading: Encoder
    scorer: nn.Module
    max_steps: int = 20

    def play(
        self,
        start: Start,
        generator: torch.Generator | None = None,
        teacher: Teacher | None = None,
    ) -> Rollout:
        """Return the episode; actions are drawn by ``generator``, or the most probable without one.

        ``teacher`` says at each decision which candidates are good, and helps as ``start`` says.
        """
        world, rollout = self.worlds[start.world], Rollout()
        profile = self.readers.resources.profile

        def decide(walk: Walk, session: Session, page: Observation) -> str:
            seen = self.reading.encode(walk.look(page), walk.step, profile)
            if not seen.actions:
                return profile.view.actions.safe((), walk.instruction)
            pick = self._pick(seen, generator)
            rollout.seen.append(seen)
            rollout.picks.append(pick)
            if teacher is None:
                return seen.actions[pick]
            good = teacher(world, session, walk.past, page, walk.events)
            places = tuple(i for i, action in enumerate(seen.actions) if action in good)
            rollout.good.append(places)
            if places and _chance(generator) < start.helped:
                pick = places[int(_chance(generator) * len(places))]
            return seen.actions[pick]

        choose = self.readers.chooser(start.reader, world, decide)
        played = record_episode(world, start.task, choose, self.max_steps)
        rollout.steps, rollout.reward = played.steps, played.page.reward
        return rollout

    def _pick(self, seen: Encoded, generator: torch.Generator | None) -> int:
        """Return the place of a drawn candidate, or of the most probable one."""
        device = next(self.scorer.parameters()).device
        with torch.inference_mode():
            logits: Tensor = self.scorer(*collate([seen], device))[0].cpu()
        if generator is None:
            return int(logits.argmax())
        return int(torch.multinomial(logits.softmax(-1), 1, generator=generator))


def _chance(generator: torch.Generator | None) -> float:
    return torch.rand((), generator=generator).item()
