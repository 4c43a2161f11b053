"""Record episodes of several WebShop shoppers as JSON lines, for what learns to read a page's state.

The shoppers are an expert with three sets of detours, ``rule`` and, where asked for, ``policy``.
``train.jsonl`` says its goals in wordings to train on; a part of its products is marked as validation
and said in wordings to develop with, so neither product nor family stands on both sides.
``heldout.jsonl`` is goals 500 to 1499 in wordings to develop with. ``collect.json`` says how often the
expert made which detour.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from stategate.envs.protocols import Observation, Session
from stategate.envs.recorder import record_episode
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.expert import Rates, play
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import Actor
from stategate.nodes.registry import registry
from stategate.stores.traces.trajectories import Trajectory, write_splits
from stategate.stores.workers import Crew, Start, in_order
from stategate.trainers.episodes import Reader, Readers, Walk, make_resources
from stategate.trainers.webshop.goals import (
    MODES,
    Practice,
    draw,
    load_shop,
    practice,
    reword,
    splits,
)

_STEPS = 20
_TEMPERATURE = 0.7
#: Sets of detours of the expert that shop side by side.
SHOPPERS: Mapping[str, Rates] = {
    "steady": Rates(),
    "careful": Rates(short_search=0.1, wrong_product=0.5, wrong_option=0.0, careful=1.0),
    "hasty": Rates(short_search=0.6, wrong_product=0.1, wrong_option=0.1),
}
#: A split's name, its goals, how many episodes, and whether products (else goals) come evenly.
Part = tuple[str, Sequence[int], int, bool]


@dataclass(frozen=True)
class Job:
    """An episode to play: a goal, by the expert with these rates and this seed, or by an actor."""

    part: str
    name: str
    goal: int
    mode: str
    rates: Rates | None = None
    seed: int = 0
    actor: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def collect(
    data: str,
    out: Path,
    n: int = 1000,
    heldout: int = 100,
    seed: int = 0,
    modes: Sequence[str] = MODES,
    others: Sequence[str] = ("rule",),
    crew: Crew | None = None,
) -> dict[str, Any]:
    """Let every shopper play; the observation modes take turns. Returns what ``collect.json`` says.

    ``others`` are kinds of actors that play a third of the goals each, beside the expert; only their
    successes are kept. A tenth of ``n`` more is for validation. A ``crew`` shares the episodes; who
    plays one makes no difference to it.
    """
    how = (data, tuple(modes), seed)
    worlds, plan = _worlds(*how)
    parts = [
        ("train", plan.training, n, False),
        ("validation", plan.heldout + plan.made_heldout, max(n // 10, 1), False),
        ("heldout", splits(plan.world)["heldout"], heldout, True),
    ]
    jobs = [
        job for i, part in enumerate(parts) for job in _shopping(worlds, part, seed + i, others)
    ]
    played = _played(jobs, partial(_serve, *how), crew)
    for one in played.pop("validation"):
        played["train"].append(replace(one, agent={**one.agent, "side": "validation"}))
    rates = {name: vars(one) for name, one in SHOPPERS.items()}
    sources = {"sha256": plan.world.catalogue.fingerprint}
    return write_splits(out, played, {"seed": seed, "rates": rates, "data": sources}, _counted)


@lru_cache(maxsize=1)
def _worlds(data: str, modes: tuple[str, ...], seed: int) -> tuple[dict[str, WebShop], Practice]:
    """Return the worlds of practice goals by mode; held-out goals are said in other words, too."""
    plans = {mode: practice(load_shop(data, mode), seed, "train", "develop") for mode in modes}
    plan = plans[modes[0]]
    worlds = {mode: p.world for mode, p in plans.items()}
    for world in worlds.values():
        reword(world, splits(plan.world)["heldout"], "develop", seed)
    return worlds, plan


def _serve(data: str, modes: tuple[str, ...], seed: int, serve: Callable[[Any], None]) -> None:
    serve(partial(_play, _worlds(data, modes, seed)[0]))


def _played(jobs: Sequence[Job], start: Start, crew: Crew | None) -> dict[str, list[Trajectory]]:
    """Return what came of the jobs, by part and in their order; lost games of actors are left out."""
    trajectories = in_order(start, jobs, crew, "record")
    played: dict[str, list[Trajectory]] = {job.part: [] for job in jobs}
    for job, trajectory in zip(jobs, trajectories, strict=True):
        played[job.part] += [trajectory] if trajectory is not None else []
    return played


def _shopping(
    worlds: Mapping[str, WebShop], part: Part, seed: int, others: Sequence[str]
) -> list[Job]:
    """Plan a part: the expert's shoppers take turns, then each other actor plays a third of it."""
    name, goals, count, by_product = part
    shop = next(iter(worlds.values()))
    chosen = draw(goals, count, seed, shop, by="asin" if by_product else "index")
    jobs: list[Job] = []
    for i, (shopper, rates) in enumerate(SHOPPERS.items()):
        how: dict[str, Any] = {"rates": rates, "facts": {"shopper": shopper}}
        own, first = chosen[i :: len(SHOPPERS)], 10_000 * (i + 1) + seed
        jobs += _jobs(worlds, own, name, f"{name}/{shopper}", first, **how)
    for i, kind in enumerate(others):
        jobs += _jobs(worlds, chosen[i % 3 :: 3], name, f"{name}-{kind}", actor=kind)
    return jobs


def _jobs(
    worlds: Mapping[str, WebShop],
    goals: Sequence[int],
    part: str,
    name: str,
    seed: int = 0,
    **how: Any,
) -> list[Job]:
    """Plan episodes; the observation modes in ``worlds`` take turns."""
    modes = sorted(worlds)
    return [
        Job(part, f"{name}/{i}/{goal}", goal, modes[i % len(modes)], seed=seed + i, **how)
        for i, goal in enumerate(goals)
    ]


def _play(worlds: Mapping[str, WebShop], job: Job) -> Trajectory | None:
    """Play one goal; None where an actor did not succeed."""
    world = worlds[job.mode]
    if job.rates is None:
        return _acted(world, job)
    played = play(world, job.goal, job.seed, job.rates)
    return replace(played, episode_id=job.name, agent={**played.agent, **job.facts})


@lru_cache(maxsize=4)
def _actor(kind: str) -> tuple[Readers, Reader, Actor]:
    """Return an actor and how it reads; one that can be drawn from is, to play in several ways."""
    readers = Readers({"full": 1.0}, make_resources("hashing", "none", WebShopEnv()), 2000)
    params = registry().parse("actor", kind)
    if "temperature" in type(params).model_fields:
        params = params.model_copy(update={"temperature": _TEMPERATURE})
    return readers, readers.draw(random.Random(0)), readers.resources.get(params)


def _acted(world: WebShop, job: Job) -> Trajectory | None:
    """Let an actor play a goal on whole pages; return the episode if it succeeded."""
    readers, reader, actor = _actor(job.actor)

    def decide(walk: Walk, session: Session, page: Observation) -> str:
        return actor(walk.look(page), walk.step).action

    choose = readers.chooser(reader, world, decide)
    played = record_episode(world, {"goal": job.goal}, choose, _STEPS)
    if played.page.reward != 1.0:
        return None
    asin = world.goals[job.goal]["asin"]
    agent = {"kind": job.actor, "mode": world.observation, "asin": asin, "detours": []}
    return played.trajectory(job.name, {"env": "webshop", "goal": job.goal}, agent)


def _counted(played: Sequence[Trajectory]) -> dict[str, Any]:
    """Return how often the expert succeeded and made which detour."""
    detours = Counter(d for t in played for d in dict.fromkeys(t.agent["detours"]))
    kinds = Counter(str(t.agent.get("shopper", t.agent["kind"])) for t in played)
    n = len(played)
    return {
        "episodes": n,
        "agents": dict(kinds.most_common()),
        "goals": len({t.task["goal"] for t in played}),
        "products": len({t.agent["asin"] for t in played}),
        "success": sum(t.reward == 1.0 for t in played) / n,
        "steps": sum(1 + max(e.t for e in t.events) for t in played) / n,
        "with_detour": sum(bool(t.agent["detours"]) for t in played) / n,
        "detours": {name: count / n for name, count in detours.most_common()},
    }
