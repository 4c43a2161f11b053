"""Train ``policy`` by DAgger: roll out, label each step with a teacher's actions, fit.

Ross et al. 2011; the teacher may know what the policy cannot see, so the policy learns where things
are likely. The loss is -log P(any action of the teacher's). Each epoch rolls out new episodes, in some
of which the teacher acts now and then, and fits to those of the last ``keep`` epochs (a run that is
resumed starts without the earlier ones).
"""

import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
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

_HELP_RATE = 0.5  # share of an epoch's episodes in which the teacher acts, and of their steps


def collate(pages: Sequence[Encoded]) -> tuple[Tensor, Tensor, Tensor]:
    """Pad pages to the one of most actions: rows (B, n, d), page (B, d), absent (B, n)."""
    sizes = torch.tensor([len(page.actions) for page in pages])
    rows = pad_sequence([torch.from_numpy(page.rows) for page in pages], batch_first=True)
    page = torch.from_numpy(np.stack([page.page for page in pages]))
    absent = torch.arange(rows.shape[1]) >= sizes.unsqueeze(1)
    return rows, page, absent


class LabelledStep(NamedTuple):
    """An encoded page, the index of the policy's action, and the indices of the teacher's."""

    encoded: Encoded
    choice: int
    good: tuple[int, ...]


class Rollout(NamedTuple):
    """A finished episode: return, length, and the steps that are labelled."""

    reward: float
    length: int
    labelled: list[LabelledStep]


class Player:
    """Rolls out episodes of a world's course with a scorer, as ``settings`` say."""

    def __init__(self, settings: DaggerSettings, encoder: Encoder, scorer: nn.Module) -> None:
        self.course = load_course(settings.course, settings.data, settings.seed)
        self.name = self.course.env.view().name
        self._settings, self._encoder, self._scorer = settings, encoder, scorer
        self._resources = Resources(None, Hashing(), env=self.course.env)
        self._contexts = [
            load_config({"context": parse_kind(text)}).context for text in settings.builders
        ]

    def collect_rollouts(self, rng: random.Random, generator: Generator) -> list[Rollout]:
        """Roll out an epoch's training tasks: actions are sampled, and labelled by the teacher."""
        tasks = _sample(self.course.training, self._settings.games, rng)
        return self.roll_out(tasks, rng, generator)

    def evaluate(self) -> list[Rollout]:
        """Roll out the same held-out tasks each time, by the most probable action."""
        rng = random.Random(self._settings.seed)
        return self.roll_out(_sample(self.course.heldout, self._settings.exam, rng), rng)

    def roll_out(
        self,
        tasks: Sequence[Mapping[str, Any]],
        rng: random.Random,
        generator: Generator | None = None,
    ) -> list[Rollout]:
        """Roll out ``tasks``, in the course's worlds in turn, through contexts that ``rng`` draws.

        With a ``generator`` actions are sampled and labelled; in some episodes the teacher acts at
        some of the steps. Without, the policy is greedy.
        """
        worlds = [world for _, world in sorted(self.course.worlds.items())]
        rollouts = []
        for i, task in enumerate(tasks):
            context, is_helped = self._draw_context(rng), rng.random() < _HELP_RATE
            world = worlds[i % len(worlds)]
            walk = Walk(self._resources, world, task, context, self._settings.memory)
            rollouts.append(self._roll_out(walk, _HELP_RATE if is_helped else 0.0, generator))
        return rollouts

    def _draw_context(self, rng: random.Random) -> ContextParams:
        """Return a context builder drawn by its weight, its budget log-uniform in [low, high]."""
        low, high = self._settings.low, self._settings.high
        (context,) = rng.choices(self._contexts, [*self._settings.builders.values()])
        budget = round(low * (high / low) ** rng.random())
        return context.model_copy(update={"budget": budget})

    def _roll_out(self, walk: Walk, help_rate: float, generator: Generator | None) -> Rollout:
        """Play ``walk`` to its end; the teacher acts in a share ``help_rate`` of the steps."""
        profile, labelled = self._resources.profile, list[LabelledStep]()
        while walk.goes_on(self._settings.max_steps):
            encoded = self._encoder.encode(walk.look(), walk.step, profile)
            if not encoded.actions:
                walk.take(profile.view.actions.safe((), walk.instruction))
                continue
            choice = self._choose(encoded, generator)
            actions = self.course.teacher(walk) if generator is not None else ()
            good = tuple(i for i, action in enumerate(encoded.actions) if action in actions)
            labelled.append(LabelledStep(encoded, choice, good))
            if good and _uniform(generator) < help_rate:
                choice = good[int(_uniform(generator) * len(good))]
            walk.take(encoded.actions[choice])
        return Rollout(walk.page.reward, walk.step, labelled)

    def _choose(self, encoded: Encoded, generator: Generator | None) -> int:
        """Return the index of a sampled action, or of the most probable one."""
        with torch.inference_mode():
            logits: Tensor = self._scorer(*collate([encoded]))[0]
        if generator is None:
            return int(logits.argmax())
        return int(torch.multinomial(logits.softmax(-1), 1, generator=generator))


def _sample(
    tasks: Sequence[Mapping[str, Any]], count: int, rng: random.Random
) -> list[Mapping[str, Any]]:
    return rng.sample(tasks, min(count, len(tasks)))


def _uniform(generator: Generator | None) -> float:
    return torch.rand((), generator=generator).item()


def train(settings: DaggerSettings) -> dict[str, Any]:
    """Train, report on held-out tasks, write the checkpoint; return the summary."""
    encoder = shipped_encoder()
    further = (read_settings(DaggerSettings, *item) for item in settings.also.items())
    worlds = [settings, *further]
    scorer, sizes = _initial_scorer(settings, encoder)
    players = [Player(of_world, encoder, scorer) for of_world in worlds]
    hashes = [next(iter(player.course.worlds.values())).fingerprint for player in players]
    run = TrainingRun(settings, {"sha256": hashes})
    recent: deque[list[LabelledStep]] = deque(maxlen=settings.keep)
    training_figures: dict[str, float] = {}

    def batches(generator: Generator) -> Iterator[list[LabelledStep]]:
        rng = random.Random(int(torch.randint(1 << 30, (1,), generator=generator)))
        scorer.eval()
        rollouts = [r for player in players for r in player.collect_rollouts(rng, generator)]
        steps = [step for rollout in rollouts for step in rollout.labelled if step.good]
        training_figures["train_success"] = mean([float(r.reward == 1) for r in rollouts])
        training_figures["agreement"] = mean([float(s.choice in s.good) for s in steps])
        recent.append(steps)
        scorer.train()
        examples = [step for epoch in recent for step in epoch]
        for _ in range(settings.passes):
            yield from shuffled(
                examples, settings.batch, generator, lambda step: len(step.encoded.actions)
            )

    def rows() -> list[dict[str, Any]]:
        """Return each world's summary row on its held-out tasks."""
        scorer.eval()
        return [_row(f"policy, {player.name}", player.evaluate()) for player in players]

    def metric() -> dict[str, float]:
        success = {f"heldout_{row['agent']}": row["success"] for row in rows()}
        return {"heldout_success": mean([*success.values()]), **success, **training_figures}

    trainer = Trainer(batches, scorer, partial(_loss, scorer), metric)
    epochs = len(trainer.fit(settings)) - 1
    # On few held-out tasks the best epoch is partly luck, and the last one has seen the most: their
    # mean wins more than either.
    for name, weights in scorer.state_dict().items():
        weights.lerp_(trainer.last[name], settings.last)
    facts = {
        "features": {"row": list(encoder.row_features), "page": list(encoder.page_features)},
        "world": ", ".join(player.name for player in players),
        "epochs": epochs,
    }
    return run.finish("policy", sizes, scorer.state_dict(), rows(), facts, half=False)


def _loss(scorer: nn.Module, batch: Sequence[LabelledStep]) -> Tensor:
    """Return the mean of -log P(any good action)."""
    rows, page, absent = collate([step.encoded for step in batch])
    is_good = torch.zeros_like(absent)
    for i, step in enumerate(batch):
        is_good[i, list(step.good)] = True
    logp = scorer(rows, page, absent).log_softmax(-1)
    loss: Tensor = -logp.masked_fill(~is_good, -1e9).logsumexp(-1).mean()
    return loss


def _row(name: str, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return a summary row: success and steps with standard errors."""
    values = {
        "success": [float(rollout.reward == 1) for rollout in rollouts],
        "steps": [float(rollout.length) for rollout in rollouts],
    }
    return {"agent": name, "n": len(rollouts), **with_errors(values)}


def _initial_scorer(settings: DaggerSettings, encoder: Encoder) -> tuple[nn.Module, dict[str, int]]:
    """Return the scorer to train, with the weights of ``settings.start`` if any, and its sizes."""
    torch.manual_seed(settings.seed)
    sizes = {
        "d_row": len(encoder.row_features),
        "d_page": len(encoder.page_features),
        "hidden": settings.hidden,
    }
    scorer = make_scorer(**sizes)
    if settings.start:
        start, start_encoder, meta = load_scorer(settings.start)
        if meta["architecture"] != sizes or start_encoder.row_features != encoder.row_features:
            raise UserError(
                f"'{settings.start}' has another width or other features: set hidden as it has, or "
                "no start"
            )
        scorer.load_state_dict(start.state_dict())
    return scorer, sizes
