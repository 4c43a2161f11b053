"""Record episodes of a course's tasks as JSON lines, to train from: ``stategate data trajectories``.

Actors take turns, on whole pages, and the world's modes after every round of actors; a lost episode is
no example and is left out. ``train.jsonl`` holds training tasks, ``heldout.jsonl`` tasks held out, as
the course divides them; ``collect.json`` says who won how many, in how many steps.
"""

import random
from collections import Counter
from functools import cache
from importlib import import_module
from typing import Any

from stategate.graph.config import load_config
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.protocols import Actor
from stategate.nodes.resources import Resources
from stategate.nodes.write_memory.short_term import ShortTerm
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import write_json, write_lines
from stategate.stores.progress import Progress
from stategate.stores.traces import Trajectory
from stategate.trainers.episodes import Course, Walk, parse_kind
from stategate.trainers.settings import TrajectorySettings

_STEPS = 50
_BUDGET = 4000  # tokens of what an actor reads, and of the steps that it remembers


def collect(settings: TrajectorySettings) -> dict[str, Any]:
    """Play tasks to train on and tasks held out; return what ``collect.json`` says of both.

    Raises ``UserError`` for an actor that does not play in this world.
    """
    course = f"stategate.trainers.{settings.world}", settings.source, settings.seed
    plan = load_course(*course)
    actors = {
        kind: load_config({"actor": parse_kind(kind)}).actor
        for kind in settings.actor or plan.actors
    }
    for actor in actors.values():
        if misfit := actor.misfit(plan.env):
            raise UserError(misfit)
    resources, modes = Resources(None, Hashing(), env=plan.env), sorted(plan.worlds)
    memory = ShortTerm(budget=_BUDGET, page_tokens=250)
    splits = {}
    for name, tasks, count in (
        ("train", plan.training, settings.episodes),
        ("heldout", plan.exams, settings.heldout),
    ):
        chosen = random.Random(f"{settings.seed} {name}").sample(tasks, min(count, len(tasks)))
        own: list[Trajectory] = []
        for i, task in enumerate(Progress(chosen, "record", unit="episode")):
            mode, kind = modes[i // len(actors) % len(modes)], [*actors][i % len(actors)]
            walk = Walk(resources, plan.worlds[mode], task, Full(budget=_BUDGET), memory)
            decide: Actor = resources.get(actors[kind])
            while walk.goes_on(_STEPS):
                walk.take(decide(walk.look(), walk.step).action)
            if walk.page.reward == 1.0:
                agent = {"kind": kind, "mode": mode, "group": plan.group(task)}
                own.append(walk.trajectory(f"{name}/{i}", {"env": plan.env.kind, **task}, agent))
        path = settings.out / f"{name}.jsonl"
        write_lines(path, (episode.to_row() for episode in own))
        splits[name] = {
            "episodes": len(own),
            "agents": dict(Counter(str(t.agent["kind"]) for t in own).most_common()),
            "steps": sum(e.kind == "ACT" for t in own for e in t.events) / max(len(own), 1),
            "sha256": sha256(path),
        }
    data_hash = next(iter(plan.worlds.values())).fingerprint
    facts = {"seed": settings.seed, "actors": [*actors], "data": {"sha256": data_hash}}
    write_json(settings.out / "collect.json", {**facts, "splits": splits}, indent=1)
    return splits


@cache
def load_course(module: str, data: str, seed: int) -> Course:
    """Return the course that ``module`` makes of ``data``. Raises ``UserError`` for no module."""
    with user_error_context(f"there is no course '{module}'", kinds=ImportError):
        course: Course = import_module(module).course(data, seed)
    return course
