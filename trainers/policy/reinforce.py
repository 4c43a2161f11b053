"""Reinforcement: the ``policy`` actor improves on the world's own reward, in thousands of episodes.

Group-relative policy gradient (Shao et al. 2024, without their length term): each goal is played by a
group of episodes that read through the same builder at the same budget, and an episode's advantage is
its reward less the group's mean, over the iteration's standard deviation. Ratios are clipped as in PPO;
an exact KL to the imitation policy and the entropy are part of the loss, and logged. Which tasks
are for training and which are held out, the world's ``course`` says; every ``every`` iterations the
greedy policy plays those held out, and the best of those curves decides what is kept and when to stop.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from torch.optim import Optimizer

from stategate.envs.protocols import World
from stategate.nodes.act.encoding import Encoded, encoder
from stategate.nodes.act.policy import load_scorer
from stategate.nodes.protocols import EnvParams
from stategate.stores.assets.weights import save_weights
from stategate.stores.runs import mean, provenance, public_config, with_errors
from stategate.trainers.episodes import Readers, make_resources
from stategate.trainers.fitting import Figures, descend, fit, pick_device
from stategate.trainers.policy.rollout import Rollout, Start, Teacher, collate, roll, sized_batches
from stategate.trainers.settings import ReinforceSettings, open_run

#: A task, and the name of the world that it is played in.
Played = tuple[Mapping[str, Any], str]
_EXAM = 80  # tasks held out, of each sort, that decide what is kept
_PASSES = 2  # over an iteration's decisions
_CLIP = 0.2  # how far from 1 a ratio counts


@dataclass(frozen=True)
class Course:
    """What to train on.

    ``worlds`` are the same world in its modes, by name; ``exams`` are tasks held out, by sort;
    ``teacher``, where there is one, says which commands are good.
    """

    env: EnvParams
    fingerprint: str
    worlds: Mapping[str, World]
    training: Sequence[Mapping[str, Any]]
    exams: Mapping[str, Sequence[Mapping[str, Any]]]
    teacher: Teacher | None = None


@dataclass(frozen=True)
class Decided:
    """One decision of a rollout, with its episode's advantage."""

    seen: Encoded
    pick: int
    logp: float
    advantage: float


def worth(reward: float, success: float) -> float:
    """Return what a reward counts with the weight ``success`` on a whole one, the rest on its size."""
    return (1 - success) * reward + success * float(reward == 1)


def decided(
    rollouts: Sequence[Rollout], group: int, discount: float = 1.0, success: float = 0.0
) -> list[Decided]:
    """Return the decisions of ``rollouts``, which come in groups; even groups teach nothing."""
    centred: list[float] = []
    for at in range(0, len(rollouts), group):
        part = rollouts[at : at + group]
        rewards = [worth(one.reward, success) * discount**one.steps for one in part]
        centred += [reward - mean(rewards) for reward in rewards]
    scale = math.sqrt(mean([value**2 for value in centred])) + 1e-6
    return [
        Decided(seen, pick, logp, value / scale)
        for one, value in zip(rollouts, centred, strict=True)
        if value != 0.0
        for seen, pick, logp in zip(one.seen, one.picks, one.logp, strict=True)
    ]


def train(settings: ReinforceSettings) -> dict[str, Any]:
    """Improve the policy, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    course: Course = import_module(settings.course).course(settings.data, settings.seed)
    worlds, modes = course.worlds, sorted(course.worlds)
    scorer, meta = load_scorer(settings.start)
    before, _ = load_scorer(settings.start)
    reading = encoder(str(meta["encoder"]))
    scorer.to(device)
    before.to(device).requires_grad_(False)
    # When to stop is no part of what a run is: the same one may be ended sooner or go on for longer.
    told = public_config(settings.model_dump(exclude={"epochs", "patience"}))
    data = {"sha256": course.fingerprint}
    facts = {"settings": told, "data": data, "start_sha256": meta["sha256"]}
    run = open_run(settings, facts)
    resources = make_resources(settings.embedder, settings.updater, course.env)
    readers = Readers(
        settings.builders, resources, max(settings.low, 100), settings.high, settings.memory
    )

    def play(starts: Sequence[Start], generator: Generator | None) -> list[Rollout]:
        scorer.eval()
        return roll(worlds, readers, reading, starts, scorer, generator, settings.max_steps, device)

    rng = random.Random(settings.seed)
    drawn = {s: rng.sample(list(t), min(_EXAM, len(t))) for s, t in course.exams.items()}
    sorts = [sort for sort, tasks in drawn.items() for _ in tasks]
    exam = [
        Start(task, modes[i % len(modes)], readers.draw(rng))
        for i, task in enumerate(task for tasks in drawn.values() for task in tasks)
    ]

    def train_epoch(optimizer: Optimizer, generator: Generator) -> Iterator[Figures]:
        epoch_rng = random.Random(int(torch.randint(1 << 30, (1,), generator=generator)))
        for _ in range(settings.every):
            tasks = [epoch_rng.choice(course.training) for _ in range(settings.groups)]
            starts = [
                start
                for task in tasks
                for start in [Start(task, epoch_rng.choice(modes), readers.draw(epoch_rng))]
                * settings.group
            ]
            rollouts = play(starts, generator)
            yield {
                "train_score": mean([one.reward for one in rollouts]),
                "train_success": mean([float(one.reward == 1) for one in rollouts]),
                "train_steps": mean([one.steps / settings.max_steps for one in rollouts]),
            }
            batch = decided(rollouts, settings.group, settings.discount, settings.success)
            for _ in range(_PASSES):
                for places in sized_batches([d.seen for d in batch], settings.batch, generator):
                    part = [batch[i] for i in places]
                    yield update(scorer, before, part, optimizer, settings, device)

    def validate() -> dict[str, float]:
        rollouts = play(exam, None)
        return {
            "heldout_score": mean([one.reward for one in rollouts]),
            "heldout_worth": mean([worth(one.reward, settings.success) for one in rollouts]),
            **{
                f"{sort}_success": mean(
                    [
                        float(one.reward == 1)
                        for one, of in zip(rollouts, sorts, strict=True)
                        if of == sort
                    ]
                )
                for sort in drawn
            },
        }

    history = fit(scorer, settings, "heldout_worth", train_epoch, validate, weight_decay=0.0)
    rows = [
        _row(name, roll(worlds, readers, reading, exam, one, None, settings.max_steps, device))
        for name, one in (("imitation", before), ("reinforced", scorer))
    ]
    described = {
        **{key: meta[key] for key in ("kind", "architecture", "encoder", "features", "embedder")},
        "world": resources.view.name,
        "trained": "imitation, then reinforcement",
        "start_sha256": meta["sha256"],
        "builders": settings.builders,
        "metrics": rows[-1],
        "epochs": len(history) - 1,
        "episodes": settings.groups * settings.group * settings.every * (len(history) - 1),
        "data": {"name": Path(settings.data).name, **data},
        "seed": settings.seed,
        **provenance(),
    }
    save_weights(settings.checkpoint, scorer.state_dict(), described, half=False)
    return run.summarise(rows, [])


def update(
    scorer: torch.nn.Module,
    before: torch.nn.Module,
    batch: Sequence[Decided],
    optimizer: Optimizer,
    settings: ReinforceSettings,
    device: torch.device,
) -> dict[str, float]:
    """Take one gradient step; return the loss, the entropy and the KL to ``before``."""
    scorer.train()
    rows, page, absent = collate([d.seen for d in batch], device)
    logp = scorer(rows, page, absent).log_softmax(-1)
    with torch.no_grad():
        reference = before(rows, page, absent).log_softmax(-1)
    picks = torch.tensor([d.pick for d in batch], device=device)
    old = torch.tensor([d.logp for d in batch], device=device)
    advantage = torch.tensor([d.advantage for d in batch], device=device)
    ratio = (logp.gather(1, picks.unsqueeze(1)).squeeze(1) - old).exp()
    clipped = ratio.clamp(1 - _CLIP, 1 + _CLIP)
    gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
    chance = logp.exp()
    kl: Tensor = (chance * (logp - reference)).masked_fill(absent, 0.0).sum(-1).mean()
    entropy: Tensor = -(chance * logp).masked_fill(absent, 0.0).sum(-1).mean()
    loss = -gain + settings.kl * kl - settings.entropy * entropy
    value = descend(scorer, loss, optimizer)
    return {"loss": value, "entropy": entropy.item(), "kl": kl.item()}


def _row(name: str, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    values = {
        "success": [float(one.reward == 1) for one in rollouts],
        "score": [one.reward for one in rollouts],
    }
    row: dict[str, Any] = {"agent": name, "n": len(rollouts), **with_errors(values)}
    row["steps"] = mean([one.steps for one in rollouts])
    return {**row, "ended": mean([float(one.done) for one in rollouts])}
