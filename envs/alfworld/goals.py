"""The goals of an ALFWorld instruction with probabilities, and the likeliest one in a room."""

from dataclasses import dataclass
from functools import lru_cache

from stategate.language.instruction.goals import Candidates, TaskKind, rank_names, read_goal

_MOST = 40  # goals of an instruction that are considered
_LEAST = 0.002  # probability, beside the likeliest goal's, of the least likely
_UNSEEN = 0.03  # what stays of a goal whose thing is nowhere, where all places were searched
_DONE = 1e-4  # what stays of a goal that was reached and did not end the game


@dataclass(frozen=True)
class Goal:
    """A goal in kinds of things. ``state`` is the verb to apply to the thing ("" for none).

    ``target`` is the kind of place, or of lamp where ``is_light``.
    """

    thing: str
    target: str
    state: str = ""
    count: int = 1
    is_light: bool = False


@dataclass(frozen=True)
class Room:
    """Kinds of places and of things that were seen so far, and the share of places searched."""

    places: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()
    searched: float = 0.0


@lru_cache(maxsize=4096)
def possible_goals(
    instruction: str, places: frozenset[str] = frozenset(), things: frozenset[str] = frozenset()
) -> tuple[tuple[Goal, float], ...]:
    """Return the goals that ``instruction`` may mean with probabilities, the likeliest first.

    ``places`` and ``things`` are kinds that the room shows; without any, all trained names compete.
    """
    reading = read_goal(instruction)
    named, targets = reading.thing(things), reading.place(places)
    lamps = rank_names(reading, "place", things) if reading.may_be("light") else ()
    goals = [
        (_goal(kind, thing, place), chance * p * q)
        for kind, chance in reading.kind
        for thing, p in named
        for place, q in (lamps if kind == "light" else targets)
    ]
    goals.sort(key=lambda pair: -pair[1])
    return tuple(pair for pair in goals[:_MOST] if pair[1] >= _LEAST * goals[0][1])


def likeliest_goal(instruction: str) -> Goal:
    """Return the likeliest goal of ``instruction`` without a room."""
    return possible_goals(instruction)[0][0]


def _goal(kind: TaskKind, thing: str, place: str) -> Goal:
    state = kind if kind in ("clean", "heat", "cool") else ""
    return Goal(thing, place, state, 1 + (kind == "two"), kind == "light")


def goals_here(instruction: str, room: Room) -> list[tuple[Goal, float]]:
    """Return the goals that ``instruction`` may mean in this room, with their weights.

    A place must be there; an unseen thing becomes less likely with every place that was searched.
    """
    goals = possible_goals(instruction, room.places, room.things)
    return [(goal, chance * _seen(goal, room)) for goal, chance in goals]


def _seen(goal: Goal, room: Room) -> float:
    unseen = max(1.0 - room.searched, _UNSEEN)
    lamp = unseen if goal.is_light and goal.target not in room.things else 1.0
    return lamp * (1.0 if goal.thing in room.things else unseen)


def weigh(chance: float, is_reached: bool) -> float:
    """Return a goal's weight, almost zero once it was reached and the game went on."""
    return chance * (_DONE if is_reached else 1.0)


def others_of(candidates: Candidates, threshold: float) -> tuple[str, ...]:
    """Return the further names with a probability of at least ``least``."""
    return tuple(name for name, chance in candidates[1:] if chance >= threshold)
