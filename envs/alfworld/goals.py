"""The goals that an ALFWorld instruction may mean, with probabilities."""

from dataclasses import dataclass
from functools import lru_cache

from stategate.language.instruction.goals import TaskKind, rank_names, read_goal

_MOST = 40  # goals of an instruction that are considered
_LEAST = 0.002  # probability, beside the likeliest goal's, of the least likely


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
