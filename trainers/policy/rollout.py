"""Encoded pages as batches, and episodes played many side by side: one forward pass a step for all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import Observation, Session, World
from stategate.nodes.act.encoding import Encoded, Encoder
from stategate.nodes.protocols import EnvParams
from stategate.stores.traces import Event
from stategate.trainers.episodes import Reader, Readers, Walk

#: Says which commands are good: of a world and session, what was (done, said), the page, and the
#: recent events that memory holds.
Teacher = Callable[
    [World, Session, Sequence[tuple[str, str]], Observation, Sequence[Event]], Sequence[str]
]
_TOGETHER = 48  # episodes played side by side: worlds keep a few dozen tasks ready
_BLOCK = 64  # pages a forward pass; sorted by size, so that little is padding


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
    """An episode to play: a task, in which of the worlds (by name), and how it is read.

    Where a teacher looks on, a step is its own with the chance ``helped``.
    """

    task: Mapping[str, Any]
    world: str
    reader: Reader
    helped: float = 0.0


@dataclass(frozen=True)
class Course:
    """What to train a policy on.

    ``worlds`` are the same world in its modes, by name; ``exams`` are tasks held out, by sort;
    ``teacher`` says which commands are good.
    """

    env: EnvParams
    fingerprint: str
    worlds: Mapping[str, World]
    training: Sequence[Mapping[str, Any]]
    exams: Mapping[str, Sequence[Mapping[str, Any]]]
    teacher: Teacher


@dataclass
class Rollout:
    """A played episode: what was seen and chosen at each decision.

    ``good`` are, for each, the candidates that a teacher calls good; where it helped, it took one of
    them in place of what was chosen.
    """

    start: Start
    seen: list[Encoded] = field(default_factory=list)
    picks: list[int] = field(default_factory=list)
    reward: float = 0.0
    steps: int = 0
    done: bool = False
    good: list[tuple[int, ...]] = field(default_factory=list)


@dataclass
class _Live:
    world: World
    walk: Walk
    session: Session
    page: Observation
    rollout: Rollout
    past: list[tuple[str, str]]


@dataclass(frozen=True)
class Player:
    """Plays episodes side by side with one scorer: worlds by name, how pages are read, and limits."""

    worlds: Mapping[str, World]
    readers: Readers
    reading: Encoder
    scorer: nn.Module
    max_steps: int = 20
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def play(
        self,
        starts: Sequence[Start],
        generator: torch.Generator | None = None,
        teacher: Teacher | None = None,
    ) -> list[Rollout]:
        """Return the episodes; actions are drawn by ``generator``, or the most probable without one.

        ``teacher`` says at each decision which candidates are good, and helps as ``starts`` say.
        """
        parts = [starts[at : at + _TOGETHER] for at in range(0, len(starts), _TOGETHER)]
        return [one for part in parts for one in self._play(part, generator, teacher)]

    def _play(
        self,
        starts: Sequence[Start],
        generator: torch.Generator | None,
        teacher: Teacher | None,
    ) -> list[Rollout]:
        live: list[_Live] = []
        for start in starts:
            world = self.worlds[start.world]
            session, page = world.reset(start.task)
            walk = self.readers.start(start.reader, world.instruction(session))
            live.append(_Live(world, walk, session, page, Rollout(start), [("", page.text)]))
        played = [one.rollout for one in live]
        profile = self.readers.resources.profile
        for step in range(self.max_steps):
            seen = [self.reading.encode(one.walk.look(one.page), step, profile) for one in live]
            picks = choose(self.scorer, seen, generator, self.device)
            for one, what, pick in zip(live, seen, picks, strict=True):
                if what.actions:
                    _take(one, what.actions[_decided(one, what, pick, generator, teacher)])
                else:
                    _take(one, profile.view.actions.safe((), one.walk.instruction))
            live = [one for one in live if not one.rollout.done]
            if not live:
                break
        return played


def _decided(
    one: _Live,
    seen: Encoded,
    pick: int,
    generator: torch.Generator | None,
    teacher: Teacher | None,
) -> int:
    """Record a decision; return the place of the action to take: the pick, or the teacher's help."""
    one.rollout.seen.append(seen)
    one.rollout.picks.append(pick)
    if teacher is None:
        return pick
    good = teacher(one.world, one.session, one.past, one.page, one.walk.events)
    places = tuple(i for i, action in enumerate(seen.actions) if action in good)
    one.rollout.good.append(places)
    if places and _chance(generator) < one.rollout.start.helped:
        return places[int(_chance(generator) * len(places))]
    return pick


def choose(
    scorer: nn.Module,
    seen: Sequence[Encoded],
    generator: torch.Generator | None,
    device: torch.device | None = None,
) -> list[int]:
    """Return the place of the action picked on each page, -1 where there is none."""
    picks = [-1] * len(seen)
    order = sorted((i for i, s in enumerate(seen) if s.actions), key=lambda i: len(seen[i].actions))
    for at in range(0, len(order), _BLOCK):
        block = order[at : at + _BLOCK]
        with torch.inference_mode():
            rows, page, absent = collate([seen[i] for i in block], device or torch.device("cpu"))
            logp: Tensor = scorer(rows, page, absent).log_softmax(-1).cpu()
            if generator is None:
                picked = logp.argmax(-1)
            else:
                picked = torch.multinomial(logp.exp(), 1, generator=generator).squeeze(-1)
        for i, pick in zip(block, picked.tolist(), strict=True):
            picks[i] = pick
    return picks


def _take(one: _Live, action: str) -> None:
    session, outcome = one.world.step(one.session, action)
    one.walk.took(one.page, action, outcome)
    one.session, one.page = session, outcome
    one.past.append((action, outcome.text))
    one.rollout.steps += 1
    one.rollout.done, one.rollout.reward = outcome.done, outcome.reward


def _chance(generator: torch.Generator | None) -> float:
    return torch.rand((), generator=generator).item()
