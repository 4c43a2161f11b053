"""What the policy actor is reinforced on in ALFWorld: games of ``train``, some rooms held out."""

import random

from envs.alfworld import AlfWorld
from nodes.observe.alfworld import AlfWorldEnv
from trainers.alfworld.teacher import good_commands
from trainers.policy.reinforce import Course

_HELD_OUT = 0.1  # of the rooms


def course(data: str, seed: int) -> Course:
    """Return the games of ``train``; held out are those of some of its rooms."""
    world = AlfWorld.load(AlfWorldEnv(data=data).folder())
    games = list(world.splits["train"])
    rooms = sorted({room_of(game) for game in games})
    random.Random(seed).shuffle(rooms)
    held = set(rooms[: max(1, round(_HELD_OUT * len(rooms)))])
    return Course(
        AlfWorldEnv(data=data, split="train"), world.fingerprint, {"train": world},
        [{"game": game} for game in games if room_of(game) not in held],
        {"heldout": [{"game": game} for game in games if room_of(game) in held]},
        good_commands,
    )  # fmt: skip


def room_of(game: str) -> str:
    """Return the room that a game is played in, of its name ("train/task-…-room/trial")."""
    return game.split("/")[-2].split("-")[-1]
