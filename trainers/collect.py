"""Record episodes of a course's tasks as JSON lines, to train from: ``stategate data trajectories``.

Actors play in turn, on whole pages, in the world's modes in turn; a lost episode is no example and is
left out. ``train.jsonl`` holds training tasks, ``heldout.jsonl`` tasks held out, as the course divides
them; ``collect.json`` says who won how many, in how many steps.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

from stategate.nodes.build_context.baselines import Full
from stategate.nodes.protocols import Actor, ActorParams
from stategate.nodes.registry import registry
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError
from stategate.stores.files import write_json, write_lines
from stategate.stores.progress import Progress
from stategate.stores.traces import Trajectory
from stategate.stores.workers import work
from stategate.trainers.episodes import Course, Reader, Readers, Walk, make_resources, parse_kind
from stategate.trainers.settings import TrajectorySettings

_STEPS = 50
_BUDGET = 4000  # tokens of what an actor reads, and of the steps that it remembers


@dataclass(frozen=True)
class Job:
    """An episode to play: a task, in which of the course's worlds (by name), by which actor."""

    name: str
    task: Mapping[str, Any]
    world: str
    actor: str


def collect(settings: TrajectorySettings) -> dict[str, Any]:
    """Play tasks to train on and tasks held out; return what ``collect.json`` says of both.

    Who plays an episode makes no difference to it. Raises ``UserError`` for an actor that does not
    play in this world.
    """
    course = f"stategate.trainers.{settings.world}", settings.source, settings.seed
    plan = load_course(*course)
    actors = settings.actor or plan.actors
    for actor in actors:
        if misfit := _params(actor).misfit(plan.env):
            raise UserError(misfit)
    parts = {
        "train": _jobs(plan, "train", plan.training, settings.episodes, settings.seed, actors),
        "heldout": _jobs(plan, "heldout", plan.exams, settings.heldout, settings.seed, actors),
    }
    jobs = [job for part in parts.values() for job in part]
    done = work(partial(_start, course), jobs, settings)
    played: dict[str, Trajectory] = {}
    for job, episode, problem in Progress(done, "record", len(jobs), unit="episode"):
        if problem is not None:
            raise UserError(f"record: {problem}")
        played[job.name] = episode
    data_hash = next(iter(plan.worlds.values())).fingerprint
    facts = {"seed": settings.seed, "actors": [*actors], "data": {"sha256": data_hash}}
    splits = {}
    for name, part in parts.items():
        own = [t for job in part if (t := played[job.name]).reward == 1.0]
        path = settings.out / f"{name}.jsonl"
        write_lines(path, (episode.to_row() for episode in own))
        splits[name] = {
            "episodes": len(own),
            "agents": dict(Counter(str(t.agent["kind"]) for t in own).most_common()),
            "steps": sum(e.kind == "ACT" for t in own for e in t.events) / max(len(own), 1),
            "sha256": sha256(path),
        }
    write_json(settings.out / "collect.json", {**facts, "splits": splits}, indent=1)
    return splits


@cache
def load_course(module: str, data: str, seed: int) -> Course:
    """Return the course that ``module`` makes of ``data``."""
    course: Course = import_module(module).course(data, seed)
    return course


def _jobs(
    plan: Course,
    part: str,
    tasks: Sequence[Mapping[str, Any]],
    count: int,
    seed: int,
    actors: Sequence[str],
) -> list[Job]:
    """Draw tasks evenly; actors take turns, and modes after every round of actors."""
    modes = sorted(plan.worlds)
    drawn = random.Random(f"{seed} {part}").sample(tasks, min(count, len(tasks)))
    return [
        Job(f"{part}/{i}", task, modes[i // len(actors) % len(modes)], actors[i % len(actors)])
        for i, task in enumerate(drawn)
    ]


def _start(course: tuple[str, str, int]) -> Callable[[Job], Trajectory]:
    plan = load_course(*course)
    memory = {"budget": _BUDGET, "page_tokens": 250}
    return partial(_play, plan, Readers({}, make_resources(plan.env), memory=memory))


def _play(plan: Course, readers: Readers, job: Job) -> Trajectory:
    actor: Actor = readers.resources.get(_params(job.actor))
    walk = Walk(readers, Reader(Full(), _BUDGET), plan.worlds[job.world], job.task)
    while walk.goes_on(_STEPS):
        walk.take(actor(walk.look(), walk.step).action)
    agent = {"kind": job.actor, "mode": job.world, "group": plan.group(job.task)}
    return walk.trajectory(job.name, {"env": plan.env.kind, **job.task}, agent)


@cache
def _params(actor: str) -> ActorParams:
    params = registry().parse("actor", parse_kind(actor))
    assert isinstance(params, ActorParams)  # noqa: S101 - the slot's kinds are
    return params
