"""Reinforcement: the ``policy`` actor improves on the shop's own reward, in thousands of episodes.

python -m trainers.policy.reinforce --config configs/train/reinforce.yaml
python -m trainers.policy.reinforce --set epochs=5  (ends a run there: the best is kept)

Group-relative policy gradient (Shao et al. 2024, without their length term): each goal is played by a
group of episodes that read through the same builder at the same budget, and an episode's advantage is
its reward less the group's mean, over the iteration's standard deviation. Ratios are clipped as in PPO;
an exact KL to the imitation policy and the entropy are part of the loss, and logged. Goals are those of
training products (``trainers.episodes.goals``); every ``every`` iterations the greedy policy plays
goals of products held out, and the best of those curves decides what is kept and when to stop.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from nodes.act.shop.candidates import Embed, Encoded
from nodes.act.shop.policy import load_scorer
from stores.assets.weights import save_weights
from stores.runs import RunDirectory, mean, provenance, shown_config, standard_error
from trainers.episodes.goals import MODES, load_shop, practice
from trainers.episodes.walk import Readers
from trainers.fitting import fit, pick_device
from trainers.policy.decisions import collate, sized_batches
from trainers.policy.rollout import Rollout, Start, roll
from trainers.settings import Settings, command_line


class ReinforceSettings(Settings):
    """Settings of the reinforcement; an epoch is ``every`` iterations and one held-out play."""

    data: str = Field(description="'sample' or a folder of the official WebShop files")
    start: str = Field(description="the imitation policy's checkpoint")
    builders: dict[str, float] = Field(
        default={"full": 1, "window": 1, "compress:allocator=uniform": 1},
        description="what makes the contexts, KIND or KIND:FIELD=VALUE,…, and how often",
    )
    updater: str = Field(
        default="none", description="whose state the builders read: none, gru or ssm"
    )
    embedder: str = Field(default="hashing", description="that of the builders")
    low: int = Field(default=100, ge=1, description="smallest budget in tokens")
    high: int = Field(default=2000, ge=1, description="largest budget in tokens")
    groups: int = Field(default=32, ge=1, description="goals an iteration")
    group: int = Field(default=8, ge=2, description="episodes a goal")
    every: int = Field(default=5, ge=1, description="iterations between held-out plays")
    passes: int = Field(default=2, ge=1, description="passes over an iteration's decisions")
    clip: float = Field(default=0.2, gt=0)
    entropy: float = Field(default=0.005, ge=0, description="weight of the entropy bonus")
    kl: float = Field(default=0.01, ge=0, description="weight of the KL to the imitation policy")
    max_steps: int = Field(default=20, ge=1)
    share: float = Field(default=0.4, gt=0, lt=1, description="of training products held out")


@dataclass(frozen=True)
class Decided:
    """One decision of a rollout, with its episode's advantage."""

    seen: Encoded
    pick: int
    logp: float
    advantage: float


def decided(rollouts: Sequence[Rollout], group: int) -> list[Decided]:
    """Return the decisions of ``rollouts``, which come in groups; even groups teach nothing."""
    centred: list[float] = []
    for at in range(0, len(rollouts), group):
        rewards = [one.reward for one in rollouts[at : at + group]]
        centred += [reward - mean(rewards) for reward in rewards]
    scale = math.sqrt(mean([value**2 for value in centred])) + 1e-6
    return [
        Decided(seen, pick, logp, value / scale)
        for one, value in zip(rollouts, centred, strict=True)
        if value != 0.0
        for seen, pick, logp in zip(one.seen, one.picks, one.logp, strict=True)
    ]


def train(settings: ReinforceSettings, command: Sequence[str]) -> dict[str, Any]:
    """Improve the policy, report, write the checkpoint; return the summary."""
    device = pick_device(settings.device)
    plans = {m: practice(load_shop(settings.data, m), settings.share, settings.seed)
             for m in MODES}  # fmt: skip
    plan = plans[MODES[0]]
    worlds = {mode: one.world for mode, one in plans.items()}
    scorer, meta = load_scorer(settings.start)
    before, _ = load_scorer(settings.start)
    scorer.to(device)
    before.to(device).requires_grad_(False)
    # When to stop is no part of what a run is: the same one may be ended sooner or go on for longer.
    told = settings.model_dump(exclude={"epochs", "patience"})
    args: dict[str, Any] = {"settings": shown_config(told), "seed": settings.seed}
    args |= {"data": {"sha256": plan.world.catalogue.fingerprint}, "start_sha256": meta["sha256"]}
    run = RunDirectory(settings.run, {**provenance(command), **args})
    readers = Readers(
        settings.builders, settings.updater, settings.low, settings.high, settings.embedder
    )
    embed: Embed | None = readers.resources.embedder.embed if meta.get("embedder") else None

    def play(starts: Sequence[Start], generator: torch.Generator | None) -> list[Rollout]:
        scorer.eval()
        return roll(worlds, readers, starts, scorer, generator, settings.max_steps, embed, device)

    rng = random.Random(settings.seed)
    exam = [Start(goal, MODES[i % 2], readers.draw(rng))
            for i, goal in enumerate((*plan.heldout, *plan.made_heldout))]  # fmt: skip

    def train_epoch(
        optimizer: torch.optim.Optimizer, generator: torch.Generator
    ) -> dict[str, float]:
        told: dict[str, list[float]] = {}
        epoch_rng = random.Random(int(torch.randint(1 << 30, (1,), generator=generator)))
        for _ in range(settings.every):
            goals = [epoch_rng.choice(plan.training) for _ in range(settings.groups)]
            starts = [
                start
                for goal in goals
                for start in [Start(goal, epoch_rng.choice(MODES), readers.draw(epoch_rng))]
                * settings.group
            ]
            rollouts = play(starts, generator)
            told.setdefault("train_score", []).extend(one.reward for one in rollouts)
            told.setdefault("train_success", []).extend(float(o.reward == 1) for o in rollouts)
            told.setdefault("train_steps", []).extend(one.steps / 20 for one in rollouts)
            data = decided(rollouts, settings.group)
            for _ in range(settings.passes):
                for places in sized_batches([d.seen for d in data], settings.batch, generator):
                    losses = update(
                        scorer, before, [data[i] for i in places], optimizer, settings, device
                    )
                    for name, value in losses.items():
                        told.setdefault(name, []).append(value)
        return {name: mean(values) for name, values in told.items()}

    def validate() -> dict[str, float]:
        rollouts = play(exam, None)
        real, made = rollouts[: len(plan.heldout)], rollouts[len(plan.heldout) :]
        return {
            "heldout_score": mean([one.reward for one in rollouts]),
            "heldout_success": mean([float(one.reward == 1) for one in real]),
            "made_success": mean([float(one.reward == 1) for one in made]),
        }

    history = fit(
        scorer, folder=run.folder, epochs=settings.epochs, patience=settings.patience,
        seed=settings.seed, learning_rate=settings.learning_rate, train_epoch=train_epoch,
        validate=validate, metric="heldout_score", weight_decay=0.0,
    )  # fmt: skip
    rows = [
        _row(name, roll(worlds, readers, exam, one, None, settings.max_steps, embed, device))
        for name, one in (("imitation", before), ("reinforced", scorer))
    ]
    summary = run.summarise(rows, [])
    described = {
        **{key: meta[key] for key in ("kind", "architecture", "encoder", "features", "embedder")},
        "trained": "imitation, then reinforcement", "start_sha256": meta["sha256"],
        "builders": settings.builders, "metrics": rows[-1], "epochs": len(history) - 1,
        "episodes": settings.groups * settings.group * settings.every * (len(history) - 1),
        "data": {"name": Path(settings.data).name, **args["data"]},
        "seed": settings.seed, **provenance(command),
    }  # fmt: skip
    save_weights(settings.checkpoint, scorer.state_dict(), described, half=False)
    return summary


def update(
    scorer: torch.nn.Module, before: torch.nn.Module, batch: Sequence[Decided],
    optimizer: torch.optim.Optimizer, settings: ReinforceSettings, device: torch.device,
) -> dict[str, float]:  # fmt: skip
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
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
    chance = logp.exp()
    kl: Tensor = (chance * (logp - reference)).masked_fill(absent, 0.0).sum(-1).mean()
    entropy: Tensor = -(chance * logp).masked_fill(absent, 0.0).sum(-1).mean()
    loss = -gain + settings.kl * kl - settings.entropy * entropy
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
    optimizer.step()
    return {"loss": loss.item(), "entropy": entropy.item(), "kl": kl.item()}


def _row(name: str, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    success = [float(one.reward == 1) for one in rollouts]
    score = [one.reward for one in rollouts]
    return {
        "agent": name, "n": len(rollouts), "success": mean(success),
        "success_se": standard_error(success), "score": mean(score),
        "score_se": standard_error(score), "steps": mean([one.steps for one in rollouts]),
        "bought": mean([float(one.done) for one in rollouts]),
    }  # fmt: skip


if __name__ == "__main__":
    command_line("trainers.policy.reinforce", __doc__, ReinforceSettings, train)
