"""Record won episodes of a course's tasks as JSON lines, to imitate: ``stategate data trajectories``.

``train.jsonl`` holds training tasks, ``heldout.jsonl`` tasks held out, as the course divides them, read
as whole pages; ``collect.json`` says which actors won how many, in how many steps.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from stategate.graph.config import load_config
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.protocols import Actor, ActorParams
from stategate.nodes.resources import Resources
from stategate.nodes.write_memory.short_term import ShortTerm
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import write_json, write_lines
from stategate.stores.progress import Progress
from stategate.stores.traces import Trajectory
from stategate.trainers.episodes import Course, Walk, parse_kind
from stategate.trainers.settings import TrajectorySettings

_MAX_STEPS = 50
_BUDGET = 4000  # tokens of what an actor reads, and of the steps that it remembers


def collect(settings: TrajectorySettings) -> dict[str, Any]:
    """Play training and held-out tasks, write the episodes; return what ``collect.json`` says of both.

    Raises ``UserError`` for an actor that does not play in this world.
    """
    module = f"stategate.trainers.{settings.world}"
    course = load_course(module, settings.source, settings.seed)
    actors = {
        kind: load_config({"actor": parse_kind(kind)}).actor
        for kind in settings.actor or course.actors
    }
    for actor in actors.values():
        if misfit := actor.misfit(course.env):
            raise UserError(misfit)
    splits = {}
    for name, tasks, count in (
        ("train", course.training, settings.episodes),
        ("heldout", course.heldout, settings.heldout),
    ):
        chosen = random.Random(f"{settings.seed} {name}").sample(tasks, min(count, len(tasks)))
        path = settings.out / f"{name}.jsonl"
        episodes = list(_won_episodes(course, actors, name, chosen))
        write_lines(path, (episode.to_row() for episode in episodes))
        steps = sum(e.kind == "ACT" for episode in episodes for e in episode.events)
        splits[name] = {
            "episodes": len(episodes),
            "agents": dict(Counter(str(e.agent["kind"]) for e in episodes).most_common()),
            "steps": steps / max(len(episodes), 1),
            "sha256": sha256(path),
        }
    data_hash = next(iter(course.worlds.values())).fingerprint
    facts = {"seed": settings.seed, "actors": [*actors], "data": {"sha256": data_hash}}
    write_json(settings.out / "collect.json", {**facts, "splits": splits}, indent=1)
    return splits


def _won_episodes(
    course: Course,
    actors: Mapping[str, ActorParams],
    split: str,
    tasks: Sequence[Mapping[str, Any]],
) -> Iterator[Trajectory]:
    """Yield the episodes of ``tasks`` that have the full reward; actors, then modes, take turns."""
    kinds, modes = list(actors), sorted(course.worlds)
    resources = Resources(None, Hashing(), env=course.env)
    memory = ShortTerm(budget=_BUDGET, page_tokens=250)
    for i, task in enumerate(Progress(tasks, "record", unit="episode")):
        mode, kind = modes[i // len(kinds) % len(modes)], kinds[i % len(kinds)]
        walk = Walk(resources, course.worlds[mode], task, Full(budget=_BUDGET), memory)
        actor: Actor = resources.get(actors[kind])
        while walk.goes_on(_MAX_STEPS):
            walk.take(actor(walk.look(), walk.step).action)
        if walk.page.reward == 1.0:
            agent = {"kind": kind, "mode": mode, "group": course.group(task)}
            yield walk.trajectory(f"{split}/{i}", {"env": course.env.kind, **task}, agent)


@cache
def load_course(module: str, data: str, seed: int) -> Course:
    """Return the course that ``module`` makes of ``data``. Raises ``UserError`` for no module."""
    with user_error_context(f"there is no course '{module}'", kinds=ImportError):
        course: Course = import_module(module).course(data, seed)
    return course
