"""Two experts' episodes to learn from, as JSON lines: ``stategate data trajectories``.

``train.jsonl`` are games of ``train``, ``heldout.jsonl`` of ``valid_seen``; of ``valid_unseen``
none is played. The searching expert knows the sort of goal and finds out where things are; now and
then it is made to do something else that is possible, so that a learner sees how one comes back.
Some further games are played as published, by an expert that knew where everything is.
``collect.json`` says how often they won, and in how many steps.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import decide, knowledge_of
from stategate.envs.protocols import Observation, Session
from stategate.envs.recorder import record_episode
from stategate.stores.traces.trajectories import Trajectory, write_splits
from stategate.stores.workers import Crew, in_order

STEPS = 50  # an episode's at most, as in the published results
_AS_PUBLISHED = "published"  # the seed of what needs none
_PUBLISHED = 0.2  # games played as published, of those that the searcher plays


def play(
    world: AlfWorld,
    game: str,
    rng: random.Random,
    stray: float = 0.0,
    limit: int = STEPS,
    commands: Sequence[str] = (),
) -> Trajectory:
    """Play a game; each step is, with the chance ``stray``, any possible command instead.

    ``commands`` are what to do, where that is known.
    """
    past: list[tuple[str, str]] = []
    mistakes: list[str] = []
    actions = [""]

    def choose(session: Session, page: Observation) -> str:
        past.append((actions[-1], page.text))
        if commands:
            action = commands[len(past) - 1]
        else:
            knowledge = knowledge_of(past, page.text, page.actions)
            action, _ = decide(world.instruction(session), knowledge, page.actions)
        if not action or rng.random() < stray:
            action = rng.choice(page.actions)
            mistakes.append(action)
        actions.append(action)
        return action

    played = record_episode(world, {"game": game}, choose, len(commands) or limit)
    sort, *_, room = game.split("/")[-2].split("-")
    agent = {
        "kind": "published" if commands else "expert",
        "strayed": len(mistakes),
        "mistakes": mistakes,
        "sort": sort,
        "room": room,
    }
    return played.trajectory(game, {"env": "alfworld", "game": game}, agent)


def _serve(data: str, stray: float, serve: Callable[[Any], None]) -> None:
    serve(partial(_play, AlfWorld.load(data), stray))


def _play(world: AlfWorld, stray: float, job: tuple[str, str]) -> Trajectory:
    game, seed = job
    if seed == _AS_PUBLISHED:
        return play(world, game, random.Random(seed), commands=world.walkthrough(game))
    return play(world, game, random.Random(seed), stray)


def collect(
    data: str,
    out: Path,
    n: int = 1000,
    heldout: int = 100,
    seed: int = 0,
    stray: float = 0.1,
    crew: Crew | None = None,
) -> dict[str, Any]:
    """Play games of both splits, drawn evenly; return what ``collect.json`` says.

    A ``crew`` shares the games; each has chances of its own, whoever plays it.
    """
    world = AlfWorld.load(data)
    jobs: list[tuple[str, str]] = []
    parts: dict[str, int] = {}
    for name, split, count in (("train", "train", n), ("heldout", "valid_seen", heldout)):
        games = list(world.splits[split])
        rng = random.Random(f"{seed} {name}")
        chosen = rng.sample(games, min(count, len(games)))
        jobs += [(game, f"{seed} {name} {game}") for game in chosen]
        parts[name] = len(chosen)
        if name == "train":
            others = [g for g in sorted(set(games) - set(chosen)) or games if world.walkthrough(g)]
            published = rng.sample(others, min(round(_PUBLISHED * len(chosen)), len(others)))
            jobs += [(game, _AS_PUBLISHED) for game in published]
            parts[name] += len(published)

    played = iter(in_order(partial(_serve, data, stray), jobs, crew, "record"))
    splits = {name: list(islice(played, count)) for name, count in parts.items()}
    facts = {"seed": seed, "stray": stray, "data": {"sha256": world.fingerprint}}
    return write_splits(out, splits, facts, _counted)


def _counted(played: Sequence[Trajectory]) -> dict[str, Any]:
    n = len(played)
    return {
        "episodes": n,
        "success": sum(t.reward == 1.0 for t in played) / n,
        "steps": sum(sum(e.kind == "ACT" for e in t.events) for t in played) / n,
        "strayed": sum(int(t.agent["strayed"]) for t in played) / n,
    }
