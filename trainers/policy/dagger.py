"""Imitation on the policy's own episodes (DAgger, Ross et al. 2011): it plays, a teacher answers.

A teacher says at every step which commands are as good as any, and it may know what the policy cannot
see: learning where it goes, the policy learns where things are likely. One good command is enough: the
loss is that none of them is chosen. Each epoch plays new episodes, some with the teacher's help now
and then, and learns from them and the last few epochs' (a run that was stopped goes on without those).
"""

import random
from collections import deque
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Generator
from torch.optim import Optimizer

from nodes.act.encoding import encoder
from nodes.act.policy import load_scorer, make_scorer
from stores.assets.weights import save_weights
from stores.errors import UserError
from stores.runs import mean, provenance, with_errors
from trainers.episodes import Readers, make_resources
from trainers.fitting import Figures, descend, fit, pick_device
from trainers.policy.reinforce import Course
from trainers.policy.rollout import Rollout, Start, collate, roll, sized_batches
from trainers.settings import DaggerSettings, open_run

_HELPED = 0.5  # of an epoch's episodes the teacher helps, at this share of their steps


def train(settings: DaggerSettings) -> dict[str, Any]:
    """Train, report on tasks held out, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    course: Course = import_module(settings.course).course(settings.data, settings.seed)
    teacher = course.teacher
    if teacher is None:
        raise UserError(f"{settings.course} has no teacher: train by imitation (train actor)")
    reading = encoder(settings.encoder)
    data = {"sha256": course.fingerprint}
    run = open_run(settings, {"data": data})
    resources = make_resources(settings.embedder, settings.updater, course.env)
    readers = Readers(settings.builders, resources, settings.low, settings.high, settings.memory)
    torch.manual_seed(settings.seed)
    sizes = {
        "d_row": len(reading.row_features), "d_page": len(reading.page_features),
        "hidden": settings.hidden,
    }  # fmt: skip
    scorer = make_scorer(**sizes).to(device)
    if settings.start:
        scorer.load_state_dict(load_scorer(settings.start)[0].state_dict())
    recent: deque[list[Rollout]] = deque(maxlen=settings.keep)
    rng = random.Random(settings.seed)
    modes = sorted(course.worlds)
    held = [task for tasks in course.exams.values() for task in tasks]
    exam = [
        Start(task, modes[i % len(modes)], readers.draw(rng))
        for i, task in enumerate(rng.sample(held, min(settings.exam, len(held))))
    ]

    def play(starts: Sequence[Start], generator: Generator | None) -> list[Rollout]:
        scorer.eval()
        return roll(
            course.worlds, readers, reading, starts, scorer, generator, settings.max_steps, device,
            teacher if generator else None,
        )  # fmt: skip

    def train_epoch(optimizer: Optimizer, generator: Generator) -> Iterator[Figures]:
        own = random.Random(int(torch.randint(1 << 30, (1,), generator=generator)))
        drawn = own.sample(list(course.training), min(settings.games, len(course.training)))
        starts = [
            Start(
                task, modes[i % len(modes)], readers.draw(own), _HELPED * (own.random() < _HELPED)
            )
            for i, task in enumerate(drawn)
        ]
        rollouts = play(starts, generator)
        yield {
            "train_success": mean([float(one.reward == 1) for one in rollouts]),
            "agreement": mean([float(p in good) for one in rollouts for p, good in _taught(one)]),
        }
        recent.append(rollouts)
        played = [one for epoch in recent for one in epoch]
        seen = [s for one in played for s, good in zip(one.seen, one.good, strict=True) if good]
        good = [good for one in played for good in one.good if good]
        scorer.train()
        for _ in range(settings.passes):
            for places in sized_batches(seen, settings.batch, generator):
                rows, page, absent = collate([seen[i] for i in places], device)
                is_good = torch.zeros_like(absent)
                for line, i in enumerate(places):
                    is_good[line, list(good[i])] = True
                logp = scorer(rows, page, absent).log_softmax(-1)
                loss = -logp.masked_fill(~is_good, -1e9).logsumexp(-1).mean()
                yield {"train_loss": descend(scorer, loss, optimizer)}

    def validate() -> dict[str, float]:
        return {"heldout_success": mean([float(one.reward == 1) for one in play(exam, None)])}

    history = fit(scorer, settings, "heldout_success", train_epoch, validate)
    rollouts = play(exam, None)
    values = {"success": [float(one.reward == 1) for one in rollouts]}
    values["steps"] = [float(one.steps) for one in rollouts]
    row = {"agent": "policy", "n": len(rollouts), **with_errors(values)}
    meta = {
        "kind": "policy", "architecture": sizes, "encoder": reading.name, "world": resources.view.name,
        "features": {"row": list(reading.row_features), "page": list(reading.page_features)},
        "embedder": None, "trained": "imitation of a teacher on its own episodes",
        "builders": settings.builders, "metrics": row, "epochs": len(history) - 1,
        "episodes": settings.games * (len(history) - 1),
        "data": {"name": Path(settings.data).name, **data}, "seed": settings.seed,
        **provenance(),
    }  # fmt: skip
    save_weights(settings.checkpoint, scorer.state_dict(), meta, half=False)
    return run.summarise([row], [])


def _taught(one: Rollout) -> list[tuple[int, tuple[int, ...]]]:
    return [(p, good) for p, good in zip(one.picks, one.good, strict=True) if good]
