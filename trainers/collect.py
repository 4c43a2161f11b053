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
from itertools import islice
from pathlib import Path
from typing import Any

from stategate.nodes.build_context.baselines import Full
from stategate.nodes.protocols import Actor, ActorParams
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.stores.traces.trajectories import Trajectory, write_splits
from stategate.stores.workers import Crew, in_order
from stategate.trainers.episodes import Course, Reader, Readers, Walk, make_resources, parse_kind

_STEPS = 50
_BUDGET = 4000  # tokens of what an actor reads, and of the steps that it remembers


@dataclass(frozen=True)
class Job:
    """An episode to play: a task, in which of the course's worlds (by name), by which actor."""

    name: str
    task: Mapping[str, Any]
    world: str
    actor: str


def collect(
    course: str,
    data: str,
    out: Path,
    n: int = 1000,
    heldout: int = 100,
    seed: int = 0,
    actors: Sequence[str] = (),
    crew: Crew | None = None,
) -> dict[str, Any]:
    """Play ``n`` tasks to train on and ``heldout`` others; return what ``collect.json`` says.

    ``actors`` are kinds as KIND or KIND:FIELD=VALUE,…, by default the course's own. A ``crew`` shares
    the episodes; who plays one makes no difference to it. Raises ``UserError`` for an actor that does
    not play in this world.
    """
    plan = load_course(course, data, seed)
    actors = actors or plan.actors
    for actor in actors:
        if misfit := _params(actor).misfit(plan.env):
            raise UserError(misfit)
    jobs = [
        _jobs(plan, name, tasks, count, seed, actors)
        for name, tasks, count in (("train", plan.training, n), ("heldout", plan.exams, heldout))
    ]
    start = partial(_serve, course, data, seed)
    played = iter(in_order(start, [job for part in jobs for job in part], crew, "record"))
    train, held = ([t for t in islice(played, len(part)) if t.reward == 1.0] for part in jobs)
    data_hash = next(iter(plan.worlds.values())).fingerprint
    facts = {"seed": seed, "actors": [*actors], "data": {"sha256": data_hash}}
    return write_splits(out, {"train": train, "heldout": held}, facts, _counted)


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


def _serve(course: str, data: str, seed: int, serve: Callable[[Any], None]) -> None:
    plan = load_course(course, data, seed)
    memory = {"budget": _BUDGET, "page_tokens": 250}
    serve(partial(_play, plan, Readers({}, make_resources(plan.env), memory=memory)))


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


def _counted(played: Sequence[Trajectory]) -> dict[str, Any]:
    return {
        "episodes": len(played),
        "agents": dict(Counter(str(t.agent["kind"]) for t in played).most_common()),
        "steps": sum(e.kind == "ACT" for t in played for e in t.events) / max(len(played), 1),
    }
