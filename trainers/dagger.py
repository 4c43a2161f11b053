"""Imitation on the policy's own episodes (DAgger, Ross et al. 2011): it plays, a teacher answers.

A teacher says at every step which commands are as good as any, and it may know what the policy cannot
see: learning where it goes, the policy learns where things are likely. One good command is enough: the
loss is that none of them is chosen. Each epoch plays new episodes, some with the teacher's help now
and then, and learns from them and the last few epochs' (a run that was stopped goes on without those).
"""

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from stategate.graph.config import load_config
from stategate.nodes.act.policy import Encoded, Encoder, load_scorer, make_scorer, shipped_encoder
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.protocols import ContextParams
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError
from stategate.stores.runs import mean, with_errors
from stategate.trainers.collect import load_course
from stategate.trainers.episodes import Walk, parse_kind
from stategate.trainers.settings import DaggerSettings, read_settings
from stategate.trainers.trainer import Trainer, TrainingRun, shuffled

_HELPED = 0.5  # of an epoch's episodes the teacher helps, at this share of their steps


def collate(seen: Sequence[Encoded]) -> tuple[Tensor, Tensor, Tensor]:
    """Pad pages to the largest: rows (B, n, d), page (B, d), absent (B, n)."""
    sizes = torch.tensor([len(one.actions) for one in seen])
    rows = pad_sequence([torch.from_numpy(one.rows) for one in seen], batch_first=True)
    page = torch.from_numpy(np.stack([one.page for one in seen]))
    absent = torch.arange(rows.shape[1]) >= sizes.unsqueeze(1)
    return rows, page, absent


class Decision(NamedTuple):
    """What was seen, the place of what was chosen, and those that a teacher calls good.

    Where it helped, it took a good one in place of what was chosen.
    """

    seen: Encoded
    pick: int
    good: tuple[int, ...]


@dataclass
class Rollout:
    """A played episode."""

    reward: float
    steps: int
    decisions: list[Decision]


class Player:
    """Plays the episodes of a world's course with a scorer, as ``settings`` say."""

    def __init__(self, settings: DaggerSettings, encoder: Encoder, scorer: nn.Module) -> None:
        self.course = load_course(settings.course, settings.data, settings.seed)
        self.name = self.course.env.view().name
        self._settings, self._encoder, self._scorer = settings, encoder, scorer
        self._resources = Resources(None, Hashing(), env=self.course.env)
        self._contexts = [
            load_config({"context": parse_kind(text)}).context for text in settings.builders
        ]

    def play(
        self,
        tasks: Sequence[Mapping[str, Any]],
        rng: random.Random,
        generator: Generator | None = None,
        helped: float = _HELPED,
    ) -> list[Rollout]:
        """Play ``tasks``, in the course's worlds in turn, through contexts that ``rng`` draws.

        The most probable action is taken; with a ``generator`` one is drawn, and the teacher says at
        each decision which are good: it helps in a share ``helped`` of the episodes.
        """
        modes, rollouts = sorted(self.course.worlds), []
        for i, task in enumerate(tasks):
            context, is_helped = self._drawn(rng), rng.random() < helped
            world = self.course.worlds[modes[i % len(modes)]]
            walk = Walk(self._resources, world, task, context, self._settings.memory)
            rollouts.append(self._episode(walk, helped if is_helped else 0.0, generator))
        return rollouts

    def _drawn(self, rng: random.Random) -> ContextParams:
        """Return a builder of contexts, drawn by its weight, at a budget even on a log scale."""
        weights, low, high = (
            self._settings.builders.values(),
            self._settings.low,
            self._settings.high,
        )
        (context,) = rng.choices(self._contexts, [*weights])
        budget = round(low * (high / low) ** rng.random())
        return context.model_copy(update={"budget": budget})

    def _episode(self, walk: Walk, helped: float, generator: Generator | None) -> Rollout:
        """Play an episode to its end; the teacher helps in a share ``helped`` of the steps."""
        profile, decisions = self._resources.profile, list[Decision]()
        while walk.goes_on(self._settings.max_steps):
            seen = self._encoder.encode(walk.look(), walk.step, profile)
            if not seen.actions:
                walk.take(profile.view.actions.safe((), walk.instruction))
                continue
            pick = self._pick(seen, generator)
            named = self.course.teacher(walk) if generator is not None else ()
            good = tuple(i for i, action in enumerate(seen.actions) if action in named)
            decisions.append(Decision(seen, pick, good))
            if good and _chance(generator) < helped:
                pick = good[int(_chance(generator) * len(good))]
            walk.take(seen.actions[pick])
        return Rollout(walk.page.reward, walk.step, decisions)

    def _pick(self, seen: Encoded, generator: Generator | None) -> int:
        """Return the place of a drawn candidate, or of the most probable one."""
        with torch.inference_mode():
            logits: Tensor = self._scorer(*collate([seen]))[0]
        if generator is None:
            return int(logits.argmax())
        return int(torch.multinomial(logits.softmax(-1), 1, generator=generator))

    def practise(self, rng: random.Random, generator: Generator) -> list[Rollout]:
        """Play an epoch's episodes; actions are drawn, and the teacher looks on."""
        tasks = list(self.course.training)
        return self.play(rng.sample(tasks, min(self._settings.games, len(tasks))), rng, generator)

    def examine(self) -> list[Rollout]:
        """Play the tasks held out, the same ones each time."""
        rng, tasks = random.Random(self._settings.seed), self.course.exams
        return self.play(rng.sample(tasks, min(self._settings.exam, len(tasks))), rng)


def _chance(generator: Generator | None) -> float:
    return torch.rand((), generator=generator).item()


def train(settings: DaggerSettings) -> dict[str, Any]:
    """Train, report on tasks held out, write the checkpoint; return the summary."""
    reading = shipped_encoder()
    every = [settings, *(read_settings(DaggerSettings, *one) for one in settings.also.items())]
    scorer, sizes = _scorer(settings, reading)
    players = [Player(one, reading, scorer) for one in every]
    hashes = [next(iter(player.course.worlds.values())).fingerprint for player in players]
    run = TrainingRun(settings, {"sha256": hashes})
    recent: deque[list[Decision]] = deque(maxlen=settings.keep)
    figures: dict[str, float] = {}  # of the episodes of an epoch

    def batches(generator: Generator) -> Iterator[list[Decision]]:
        own = random.Random(int(torch.randint(1 << 30, (1,), generator=generator)))
        scorer.eval()
        rollouts = [one for player in players for one in player.practise(own, generator)]
        taught = [d for one in rollouts for d in one.decisions if d.good]
        figures["train_success"] = mean([float(one.reward == 1) for one in rollouts])
        figures["agreement"] = mean([float(d.pick in d.good) for d in taught])
        recent.append(taught)
        scorer.train()
        examples = [d for epoch in recent for d in epoch]
        for _ in range(settings.passes):
            yield from shuffled(examples, settings.batch, generator, lambda d: len(d.seen.actions))

    def rows() -> list[dict[str, Any]]:
        """Play every world's exam."""
        scorer.eval()
        return [_row(f"policy, {player.name}", player.examine()) for player in players]

    def metric() -> dict[str, float]:
        won = {f"heldout_{row['agent']}": row["success"] for row in rows()}
        return {"heldout_success": mean([*won.values()]), **won, **figures}

    trainer = Trainer(batches, scorer, partial(_loss, scorer), metric)
    epochs = _fitted(trainer, scorer, settings)
    facts = {
        "encoder": reading.version,
        "features": {"row": list(reading.row_features), "page": list(reading.page_features)},
        "world": ", ".join(player.name for player in players),
        "epochs": epochs,
    }
    return run.finish("policy", sizes, scorer.state_dict(), rows(), facts, half=False)


def _fitted(trainer: Trainer[list[Decision]], scorer: nn.Module, settings: DaggerSettings) -> int:
    """Train, mix the last epoch's weights into ``scorer``'s (weight averaging); return the epochs.

    The best epoch of a short exam is partly luck, and the last one has played most; their mean wins
    more than either.
    """
    epochs = len(trainer.fit(settings)) - 1
    mixed = {
        name: (1 - settings.last) * best + settings.last * trainer.last[name]
        for name, best in scorer.state_dict().items()
    }
    scorer.load_state_dict(mixed)
    return epochs


def _loss(scorer: nn.Module, batch: Sequence[Decision]) -> Tensor:
    """Return the mean negative log-probability that one of the good candidates is chosen."""
    rows, page, absent = collate([one.seen for one in batch])
    is_good = torch.zeros_like(absent)
    for line, one in enumerate(batch):
        is_good[line, list(one.good)] = True
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


def _scorer(settings: DaggerSettings, reading: Encoder) -> tuple[nn.Module, dict[str, int]]:
    """Return a scorer and its sizes, with the weights of ``settings.start`` if that is named."""
    torch.manual_seed(settings.seed)
    sizes = {
        "d_row": len(reading.row_features),
        "d_page": len(reading.page_features),
        "hidden": settings.hidden,
    }
    scorer = make_scorer(**sizes)
    if settings.start:
        before, earlier, meta = load_scorer(settings.start)
        if meta["architecture"] != sizes or earlier.row_features != reading.row_features:
            raise UserError(
                f"'{settings.start}' has another width or other features: set hidden as it has, or "
                "no start"
            )
        scorer.load_state_dict(before.state_dict())
    return scorer, sizes
