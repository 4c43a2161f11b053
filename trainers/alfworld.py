"""The ALFWorld course: games of ``train``, some of its rooms held out, and a teacher.

The teacher is the searching expert, which is told where things are; commands as good as its own count
as good, too.
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
    target_places = {
        place
        for place, things in world.contents(walk.session).items()
        if place not in knowledge.seen
        and any(kind_of(t) == target_kind and t not in done for t in things)
    }
    best, _ = decide(goal, knowledge, dict.fromkeys(target_places, 1.0))
    if not best:
        return ()
    if _goes_to(best, target_places):
        return [action for action in page.actions if _goes_to(action, target_places)]
    return [a for a in page.actions if _is_equivalent(a, best, goal, knowledge, done)]


def _goes_to(action: str, places: set[str]) -> bool:
    command = command_of(action)
    return command.verb == "go" and command.place in places


def _is_equivalent(
    action: str, best: str, goal: Goal, knowledge: Knowledge, done: set[str]
) -> bool:
    """Say whether a command is ``best`` with another thing and place of the same kinds and facts."""
    command, best_command = command_of(action), command_of(best)

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
        command.verb == best_command.verb
        and kind_of(command.thing) == kind_of(best_command.thing)
        and kind_of(command.place) == kind_of(best_command.place)
        and command.thing not in done
        and facts(command.place) == facts(best_command.place)
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
