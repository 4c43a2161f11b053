"""The ALFWorld course: games of ``train``, some of its rooms held out, and a teacher.

The teacher is the searching expert that knows where things are: it returns all commands that are
equally good.
"""

import random
from collections.abc import Sequence

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import (
    Goal,
    Knowledge,
    decide,
    delivered,
    goal_here,
    knowledge_of,
)
from stategate.envs.alfworld.reading import command_of, kind_of
from stategate.nodes.observe.alfworld import AlfWorldEnv
from stategate.nodes.resources import Resources
from stategate.trainers.episodes import Course, Walk


def good_commands(walk: Walk) -> Sequence[str]:
    """Return the optimal commands where ``walk`` stands; none where the expert has none."""
    world, page = walk.world, walk.page
    assert isinstance(world, AlfWorld)  # noqa: S101 - the course's own world
    knowledge = knowledge_of(walk.past, page.text, page.actions)
    goal = goal_here(walk.instruction, knowledge)
    carries = kind_of(knowledge.hand) == goal.thing
    target_kind = goal.target if goal.is_light and carries else goal.thing
    done = delivered(goal, knowledge)
    there = {
        place
        for place, things in world.contents(walk.session).items()
        if place not in knowledge.seen
        and any(kind_of(t) == target_kind and t not in done for t in things)
    }
    action, _ = decide(goal, knowledge, dict.fromkeys(there, 1.0))
    if not action:
        return ()
    own = command_of(action)
    if own.verb == "go" and own.place in there:
        return [a for a in page.actions if a.startswith("go ") and command_of(a).place in there]
    return [a for a in page.actions if _is_like(a, action, goal, knowledge, done)]


def _is_like(action: str, best: str, goal: Goal, knowledge: Knowledge, done: set[str]) -> bool:
    """Say whether a command does the same with a thing and place of the same kinds, as little tried."""
    one, other = command_of(action), command_of(best)

    def facts(name: str) -> tuple[bool, ...]:
        things = knowledge.seen.get(name, ())
        return (
            name in knowledge.been,
            name in knowledge.seen,
            name == knowledge.at,
            any(kind_of(t) == goal.thing for t in things),
            any(kind_of(t) == goal.target for t in things),
        )

    if action == best:
        return True
    tried = knowledge.tried
    return (
        one.verb == other.verb
        and kind_of(one.thing) == kind_of(other.thing)
        and kind_of(one.place) == kind_of(other.place)
        and one.thing not in done
        and facts(one.place) == facts(other.place)
        and tried.get(action, 0) == tried.get(best, 0)
    )


_HELD_OUT = 0.1  # of the rooms


def course(data: str, seed: int) -> Course:
    """Return the games of ``train``; held out are those of some rooms."""
    env = AlfWorldEnv(data=data, split="train")
    world = env.build(Resources())
    rooms = sorted({room_of(game) for game in world.splits["train"]})
    random.Random(seed).shuffle(rooms)
    held_out = set(rooms[: max(1, round(_HELD_OUT * len(rooms)))])
    return Course(
        env,
        {"train": world},
        [{"game": g} for g in world.splits["train"] if room_of(g) not in held_out],
        [{"game": g} for g in world.splits["train"] if room_of(g) in held_out],
        good_commands,
        ("search_heuristic", "noisy:inner=search_heuristic"),
        lambda task: room_of(task["game"]),
    )


def room_of(game: str) -> str:
    """Return the room that a game is played in, of its name ("train/task-…-room/trial")."""
    return game.split("/")[-2].split("-")[-1]
