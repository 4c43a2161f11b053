"""The ALFWorld course of the policy: games of ``train``, and invented ones.

Some rooms of ``train`` are held out. The invented games have words of their own in each game, so that
what is asked must be found out and can't be known by its name; of their seeds none ships.
"""

import json
import random
from collections.abc import Sequence

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.files import Library, open_library
from stategate.envs.alfworld.sample.make import domain, invent_game
from stategate.nodes.observe.alfworld import AlfWorldEnv
from stategate.trainers.alfworld.teacher import good_commands
from stategate.trainers.policy.rollout import Course

_HELD_OUT = 0.1  # of the rooms
_INVENTED = "invented"
_SEEDS = range(1000, 1040)  # of invented games to train on: those of other seeds are for others
_HELD_SEEDS = range(1040, 1044)
_EACH = 48  # games of a seed


def course(data: str, seed: int) -> Course:
    """Return the games of ``train``, and invented ones; held out are some rooms of either."""
    world = AlfWorld(_Mixed(open_library(AlfWorldEnv(data=data).folder())))
    games = list(world.splits["train"])
    rooms = sorted({room_of(game) for game in games})
    random.Random(seed).shuffle(rooms)
    held = set(rooms[: max(1, round(_HELD_OUT * len(rooms)))])
    made = world.splits[_INVENTED]
    held_made = [game for game in made if int(room_of(game)) in _HELD_SEEDS]
    training = [g for g in games if room_of(g) not in held] + sorted({*made} - {*held_made})
    exams = {"heldout": [g for g in games if room_of(g) in held], _INVENTED: held_made}
    return Course(
        AlfWorldEnv(data=data, split="train"),
        world.fingerprint,
        {"train": world},
        [{"game": game} for game in training],
        {sort: [{"game": game} for game in of] for sort, of in exams.items()},
        good_commands,
    )


def room_of(game: str) -> str:
    """Return the room that a game is played in, of its name ("train/task-…-room/trial")."""
    return game.split("/")[-2].split("-")[-1]


class _Mixed:
    """Published games, and renamed invented ones beside them."""

    def __init__(self, published: Library) -> None:
        self._published = published
        self._invented = {
            f"{_INVENTED}/game-{seed}/{number}": (seed, "train", number)
            for seed in (*_SEEDS, *_HELD_SEEDS)
            for number in range(_EACH)
        }

    def names(self) -> Sequence[str]:
        """Return the published games of ``train``, and the invented."""
        of_train = [n for n in self._published.names() if n.startswith("train/")]
        return [*of_train, *self._invented]

    def text(self, name: str) -> str:
        """Return a game's file."""
        if name in self._invented:
            _, game = invent_game(*self._invented[name], renamed=True)
            return json.dumps({"pddl_domain": domain(), **game})
        return self._published.text(name)
