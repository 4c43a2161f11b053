"""Imitation on the policy's own episodes (DAgger, Ross et al. 2011): it plays, a teacher answers.

A teacher says at every step which commands are as good as any, and it may know what the policy cannot
see: learning where it goes, the policy learns where things are likely. One good command is enough: the
loss is that none of them is chosen. Each epoch plays new episodes, some with the teacher's help now
and then, and learns from them and the last few epochs' (a run that was stopped goes on without those).
"""

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from stategate.envs.protocols import Observation, Session, World
from stategate.nodes.act.encoding import Encoded, Encoder, shipped_encoder
from stategate.nodes.act.policy import load_scorer, make_scorer
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from stategate.stores.runs import mean, provenance, with_errors
from stategate.trainers.collect import load_course
from stategate.trainers.episodes import Reader, Readers, Teacher, Walk, make_resources
from stategate.trainers.settings import DaggerSettings, open_run, read_settings
from stategate.trainers.trainer import Trainer, pick_device

_HELPED = 0.5  # of an epoch's episodes the teacher helps, at this share of their steps


def collate(seen: Sequence[Encoded], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Pad pages to the largest: rows (B, n, d), page (B, d), absent (B, n)."""
    sizes = torch.tensor([len(one.actions) for one in seen])
    rows = pad_sequence([torch.from_numpy(one.rows) for one in seen], batch_first=True)
    page = torch.from_numpy(np.stack([one.page for one in seen]))
    absent = torch.arange(rows.shape[1]) >= sizes.unsqueeze(1)
    return rows.to(device), page.to(device), absent.to(device)


def sized_batches(seen: Sequence[Encoded], size: int, generator: Generator) -> Iterator[list[int]]:
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
        generator: Generator | None = None,
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

        played = self.readers.play(start.reader, world, start.task, decide, self.max_steps)
        rollout.steps, rollout.reward = played.steps, played.page.reward
        return rollout

    def _pick(self, seen: Encoded, generator: Generator | None) -> int:
        """Return the place of a drawn candidate, or of the most probable one."""
        device = next(self.scorer.parameters()).device
        with torch.inference_mode():
            logits: Tensor = self.scorer(*collate([seen], device))[0].cpu()
        if generator is None:
            return int(logits.argmax())
        return int(torch.multinomial(logits.softmax(-1), 1, generator=generator))


def _chance(generator: Generator | None) -> float:
    return torch.rand((), generator=generator).item()


class School:
    """A world's course, and who plays it as ``settings`` say."""

    def __init__(self, settings: DaggerSettings, reading: Encoder, scorer: nn.Module) -> None:
        self.course = load_course(settings.course, settings.data, settings.seed)
        self.name, self._games = self.course.env.view().name, settings.games
        self._readers = Readers(
            settings.builders,
            make_resources(self.course.env),
            settings.low,
            settings.high,
            settings.memory,
        )
        self._player = Player(
            self.course.worlds, self._readers, reading, scorer, settings.max_steps
        )
        rng, exams = random.Random(settings.seed), self.course.exams
        self._exam = self._starts(rng.sample(exams, min(settings.exam, len(exams))), rng, 0.0)

    def _starts(
        self, tasks: Sequence[Mapping[str, Any]], rng: random.Random, helped: float = _HELPED
    ) -> list[Start]:
        modes = sorted(self.course.worlds)

        def help_of() -> float:
            return helped * (rng.random() < helped) if helped else 0.0

        return [
            Start(task, modes[i % len(modes)], self._readers.draw(rng), help_of())
            for i, task in enumerate(tasks)
        ]

    def practise(self, rng: random.Random, generator: Generator) -> list[Rollout]:
        """Play an epoch's episodes; actions are drawn, and the teacher looks on."""
        tasks = list(self.course.training)
        starts = self._starts(rng.sample(tasks, min(self._games, len(tasks))), rng)
        return [self._player.play(start, generator, self.course.teacher) for start in starts]

    def examine(self) -> list[Rollout]:
        """Play the tasks held out."""
        return [self._player.play(start) for start in self._exam]


#: Pages, and the places of the good candidates on each.
Batch = tuple[list[Encoded], list[tuple[int, ...]]]


def train(settings: DaggerSettings) -> dict[str, Any]:
    """Train, report on tasks held out, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    reading = shipped_encoder()
    every = [settings, *(read_settings(DaggerSettings, *one) for one in settings.also.items())]
    is_joint = len(every) > 1
    scorer, sizes = _scorer(settings, reading, device)
    schools = [School(one, reading, scorer) for one in every]
    names = [school.name for school in schools]
    hashes = [next(iter(school.course.worlds.values())).fingerprint for school in schools]
    data = {"sha256": hashes if is_joint else hashes[0]}
    run = open_run(settings, {"data": data})
    recent: deque[list[Rollout]] = deque(maxlen=settings.keep)

    def batches(generator: Generator) -> Iterator[Batch]:
        own = random.Random(int(torch.randint(1 << 30, (1,), generator=generator)))
        scorer.eval()
        rollouts = [one for school in schools for one in school.practise(own, generator)]
        trainer.figures |= {
            "train_success": [float(one.reward == 1) for one in rollouts],
            "agreement": [float(p in good) for one in rollouts for p, good in _taught(one)],
        }
        recent.append(rollouts)
        scorer.train()
        yield from _batches([x for epoch in recent for x in epoch], settings, generator)

    def examined() -> list[list[Rollout]]:
        scorer.eval()
        return [school.examine() for school in schools]

    def metric() -> dict[str, float]:
        won = [mean([float(one.reward == 1) for one in rollouts]) for rollouts in examined()]
        each = {f"heldout_{name}": share for name, share in zip(names, won, strict=True)}
        return {"heldout_success": mean(won), **(each if is_joint else {})}

    trainer = Trainer(batches, scorer, partial(_loss, scorer, device), metric)
    epochs = _fitted(trainer, scorer, settings)
    rows = [
        _row(f"policy, {name}" if is_joint else "policy", rollouts)
        for name, rollouts in zip(names, examined(), strict=True)
    ]
    meta = {
        "kind": "policy",
        "architecture": sizes,
        "encoder": reading.version,
        "world": ", ".join(names),
        "features": {"row": list(reading.row_features), "page": list(reading.page_features)},
        "embedder": None,  # the features hold no vectors
        "trained": "imitation of a teacher on its own episodes",
        "last": settings.last,
        "builders": settings.builders,
        "metrics": rows if is_joint else rows[0],
        "epochs": epochs,
        "episodes": sum(one.games for one in every) * epochs,
        "data": {"name": ", ".join(Path(one.data).name for one in every), **data},
        "seed": settings.seed,
        **provenance(),
    }
    save_weights(settings.checkpoint, scorer.state_dict(), meta, half=False)
    return run.summarise(rows, [])


def _fitted(trainer: Trainer[Batch], scorer: nn.Module, settings: DaggerSettings) -> int:
    """Train, mix the last epoch's weights into ``scorer``'s (weight averaging); return the epochs.

    The best epoch of a short exam is partly luck, and the last one has played most; their mean wins
    more than either.
    """
    from safetensors.torch import load_file

    epochs = len(trainer.fit(settings)) - 1
    saved = load_file(Path(settings.run) / "last.safetensors")
    mixed = {
        name: (1 - settings.last) * best + settings.last * saved[f"model/{name}"]
        for name, best in scorer.state_dict().items()
    }
    scorer.load_state_dict(mixed)
    return epochs


def _loss(scorer: nn.Module, device: torch.device, batch: Batch) -> Tensor:
    """Return the mean negative log-probability that one of the good candidates is chosen."""
    rows, page, absent = collate(batch[0], device)
    is_good = torch.zeros_like(absent)
    for line, good in enumerate(batch[1]):
        is_good[line, list(good)] = True
    logp = scorer(rows, page, absent).log_softmax(-1)
    loss: Tensor = -logp.masked_fill(~is_good, -1e9).logsumexp(-1).mean()
    return loss


def _row(name: str, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return a summary row: success and steps with standard errors."""
    values = {
        "success": [float(one.reward == 1) for one in rollouts],
        "steps": [float(one.steps) for one in rollouts],
    }
    return {"agent": name, "n": len(rollouts), **with_errors(values)}


def _scorer(
    settings: DaggerSettings, reading: Encoder, device: torch.device
) -> tuple[nn.Module, dict[str, int]]:
    """Return a scorer and its sizes, with the weights of ``settings.start`` if that is named."""
    torch.manual_seed(settings.seed)
    sizes = {
        "d_row": len(reading.row_features),
        "d_page": len(reading.page_features),
        "hidden": settings.hidden,
    }
    scorer = make_scorer(**sizes).to(device)
    if settings.start:
        before, earlier, meta = load_scorer(settings.start)
        if meta["architecture"] != sizes or earlier.row_features != reading.row_features:
            raise UserError(
                f"'{settings.start}' has another width or other features: set hidden as it has, or "
                "no start"
            )
        scorer.load_state_dict(before.state_dict())
    return scorer, sizes


def _batches(
    played: Sequence[Rollout], settings: DaggerSettings, generator: Generator
) -> Iterator[Batch]:
    """Yield the decisions that the teacher had a word on, ``settings.passes`` times."""
    seen = [s for one in played for s, good in zip(one.seen, one.good, strict=True) if good]
    good = [good for one in played for good in one.good if good]
    for _ in range(settings.passes):
        for places in sized_batches(seen, settings.batch, generator):
            yield [seen[i] for i in places], [good[i] for i in places]


def _taught(one: Rollout) -> list[tuple[int, tuple[int, ...]]]:
    """Return the picks and good candidates of the decisions that the teacher had a word on."""
    return [(p, good) for p, good in zip(one.picks, one.good, strict=True) if good]
