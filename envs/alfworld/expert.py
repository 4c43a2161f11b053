"""The search expert: what an instruction may mean, what is known of a room, and what to do next.

Its inputs are the instruction, past commands with their answers, and the page's commands. With the
whole history it is the expert whose episodes train others. With a prompt's part of the history
(``nodes.act.search_heuristic``) it measures what the prompt lost: it searches those places again.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from stategate.envs.alfworld.reading import (
    STATES,
    Command,
    carried_in,
    closed_in,
    command_of,
    item_in_hand,
    kind_of,
    place_in,
    things_in,
)
from stategate.language.instruction.goals import (
    GoalReading,
    TaskKind,
    is_hinted,
    rank_names,
    read_goal,
)

_MOST = 40  # goals of an instruction that are considered
_LEAST = 0.002  # probability, beside the likeliest goal's, of the least likely
_LIGHT = 0.01  # probability from which a task may be to look at something by a lamp
_UNSEEN = 0.03  # what stays of a goal whose thing is nowhere, where all places were searched
_DONE = 1e-4  # what stays of one that was reached in vain, or whose state no place can give

#: Words in the names of places where a thing is likely to reach a state; others are tried after them.
_TOOLS = {
    "clean": re.compile(r"sink|basin|wash|trough|tub"),
    "heat": re.compile(r"microwave|oven|stove"),
    "cool": re.compile(r"fridge|icebox|freez"),
}


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
    reading: GoalReading,
    places: frozenset[str] = frozenset(),
    things: frozenset[str] = frozenset(),
    usable: frozenset[str] = frozenset(),
    is_searched: bool = True,
) -> tuple[tuple[Goal, float], ...]:
    """Return the goals that an instruction may mean with probabilities, the likeliest first.

    ``places`` and ``things`` are kinds that the room shows; without any, all trained names compete.
    ``usable`` are those that the page offers to use: its lamps. Until the room ``is_searched``, what
    it shows but nothing in the instruction hints at is hardly a goal.
    """
    named = rank_names(reading, "thing", things)
    if not is_searched:
        hints = {name: is_hinted(reading, "thing", name) for name in things}
        named = tuple((n, p if hints.get(n, True) else p * _UNSEEN) for n, p in named)
    targets = rank_names(reading, "place", places, is_closed=bool(places))
    lamps = rank_names(reading, "place", usable or things, is_closed=bool(usable))
    goals = [
        (_goal(kind, thing, place), chance * p * q)
        for kind, chance in reading.kind
        if kind != "light" or chance >= _LIGHT
        for thing, p in named
        for place, q in (lamps if kind == "light" else targets)
        if place != thing
    ]
    goals.sort(key=lambda pair: -pair[1])
    return tuple(pair for pair in goals[:_MOST] if pair[1] >= _LEAST * goals[0][1])


def likeliest_goal(instruction: str) -> Goal:
    """Return the likeliest goal of ``instruction`` without a room."""
    return possible_goals(read_goal(instruction))[0][0]


def _goal(kind: TaskKind, thing: str, place: str) -> Goal:
    state = kind if kind in ("clean", "heat", "cool") else ""
    return Goal(thing, place, state, 1 + (kind == "two"), kind == "light")


@dataclass
class Knowledge:
    """The facts about a room that commands and their answers revealed, and the commands now."""

    actions: Sequence[str] = ()
    at: str = ""
    hand: str = ""
    #: Things by the place where they were seen last; a place that was seen closed is not in it.
    seen: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    states: dict[str, set[str]] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    #: Places visited with the item in hand, in the state that it is in.
    been: set[str] = field(default_factory=set)
    #: Places visited with anything in hand.
    carried_to: set[str] = field(default_factory=set)
    #: (thing, place or lamp, states) of each thing held under a lamp, put down, or beside such a one.
    placed: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)

    def learn(self, action: str, answer: str) -> None:
        """Update from a command ("" for the first page) and its answer ("" where it is not visible)."""
        command, is_vain = command_of(action), answer.startswith("Nothing happens")
        if is_vain or command.verb in ("go", "use", *STATES):
            self.tried[action] = self.tried.get(action, 0) + 1
        if is_vain:
            return
        place = command.place or self.at
        if command.verb == "go":
            self.at = command.place
            self.been.add(command.place)
            self.carried_to |= {command.place} if self.hand else set()
        elif command.verb == "open":
            self.closed.discard(place)
        elif command.verb == "close":
            self.closed.add(place)
        elif command.verb == "take":
            self.hand = command.thing
            self.been = set()
            for things in self.seen.values():
                if command.thing in things:
                    things.remove(command.thing)
        elif command.verb == "put":
            self.hand = ""
            self.seen.setdefault(place, []).append(command.thing)
            for thing in self.seen[place]:  # others may stand there already
                self._place(thing, place)
        elif command.verb in ("use", *STATES):
            self.states.setdefault(command.thing, set()).add(command.verb)
            self.been = set()
            if command.verb == "use" and self.hand:
                self._place(self.hand, command.thing)
        self.look(answer)

    def _place(self, thing: str, place: str) -> None:
        self.placed.append((thing, place, frozenset(self.states.get(thing, ()))))

    def look(self, page: str) -> None:
        """Update from a page's text."""
        if closed := closed_in(page):
            self.closed.add(closed)
            self.at = self.at or closed
        things = things_in(page)
        place = place_in(page) or (self.at if things else "")
        if place:
            self.at = self.at or place
            self.seen[place] = things
            self.closed.discard(place)
        self.hand = carried_in(page) or self.hand

    def where(self, kind: str) -> list[tuple[str, str]]:
        """Return (thing, place) of the things of a kind whose place is known."""
        return [
            (t, place) for place, things in self.seen.items() for t in things if kind_of(t) == kind
        ]


def knowledge_of(events: Sequence[tuple[str, str]], page: str, actions: Sequence[str]) -> Knowledge:
    """Return the knowledge that past (command, answer) pairs and the present page give."""
    knowledge = Knowledge(actions)
    for action, answer in events:
        knowledge.learn(action, answer)
    knowledge.look(page)
    is_empty = any(command_of(action).verb == "take" for action in actions)
    knowledge.hand = item_in_hand(actions, page) or ("" if is_empty else knowledge.hand)
    return knowledge


def goal_here(instruction: str, knowledge: Knowledge) -> Goal:
    """Return the likeliest goal of ``instruction`` in this room.

    A thing of which too few were seen becomes less likely with every place that was searched, a state
    with every place where what was in hand could not be changed. A target that does not take the thing
    is unlikely; a goal that was reached while the game went on is ruled out.
    """
    places = {command_of(a).place for a in knowledge.actions if a.startswith("go to ")}
    places = {*places, *knowledge.seen, *knowledge.closed, knowledge.at} - {""}
    named = {thing for here in knowledge.seen.values() for thing in here} | {knowledge.hand}
    things = Counter(kind_of(thing) for thing in named - {""})
    unseen = max(1.0 - len(knowledge.seen) / max(len(places), 1), _UNSEEN)
    untried = max(1.0 - len(knowledge.carried_to) / max(len(places), 1), _DONE)
    reached = set().union(*knowledge.states.values())
    commands = [command_of(action) for action in knowledge.actions]
    usable = {kind_of(c.thing) for c in commands if c.verb == "use"}
    open_ = {kind_of(c.place) for c in commands if c.verb in ("put", "open")}

    def weight(goal: Goal, chance: float) -> float:
        lamp = unseen if goal.is_light and goal.target not in things else 1.0
        chance *= lamp * (1.0 if things[goal.thing] >= goal.count else unseen)
        if goal.state and goal.state not in reached:
            return chance * untried
        if goal.thing == kind_of(knowledge.hand) and not goal.is_light and goal.target not in open_:
            is_left = all(p in knowledge.been for p in places if kind_of(p) == goal.target)
            chance *= _UNSEEN if is_left else 1.0
        return chance * (_DONE if _is_reached(goal, knowledge) else 1.0)

    shown = frozenset(map(kind_of, places)), frozenset(things), frozenset(usable)
    goals = possible_goals(read_goal(instruction), *shown, unseen <= _UNSEEN)
    return max(goals, key=lambda pair: weight(*pair))[0]


def _is_reached(goal: Goal, knowledge: Knowledge) -> bool:
    """Say whether a goal was reached at some time, by past actions or by the things at its place."""
    done = {
        (thing, place)
        for thing, place, states in knowledge.placed
        if kind_of(thing) == goal.thing
        and kind_of(place) == goal.target
        and (not goal.state or goal.state in states)
    }
    largest = max(Counter(place for _, place in done).values(), default=0)
    return largest >= goal.count or len(delivered(goal, knowledge)) >= goal.count


def delivered(goal: Goal, knowledge: Knowledge) -> set[str]:
    """Return the goal's things that are already at its place."""
    if goal.is_light:
        return set()
    first = _fullest(goal, knowledge)
    return {
        thing
        for thing, place in knowledge.where(goal.thing)
        if kind_of(place) == goal.target
        and first in ("", place)
        and (not goal.state or goal.state in knowledge.states.get(thing, ()))
    }


def _fullest(goal: Goal, knowledge: Knowledge) -> str:
    """Return the place for several things: the one that already holds most of them, "" if none."""
    if goal.count < 2:
        return ""
    places = [p for _, p in knowledge.where(goal.thing) if kind_of(p) == goal.target]
    return max(sorted(set(places)), key=places.count, default="")


def decide(
    goal: Goal, knowledge: Knowledge, usual: Mapping[str, float] | None = None
) -> tuple[str, str]:
    """Return (command, reason) towards ``goal``; the command is "" where no rule applies.

    ``usual`` gives the likelihood of the goal's thing by place or kind of place: the likeliest places
    are searched first. Without it one place of each kind is searched, then a second of each, and so on.
    """
    moment = _Moment(goal, knowledge, usual or {})
    hand = knowledge.hand
    if not hand:
        return moment.fetch()
    if kind_of(hand) != goal.thing:
        put = moment.first("put")
        return (put, "this is not asked for") if put else moment.search()
    if goal.is_light:
        return moment.light()
    if goal.state and goal.state not in knowledge.states.get(hand, ()):
        return moment.change()
    return moment.deliver()


class _Moment:
    """The choices of one moment."""

    def __init__(self, goal: Goal, knowledge: Knowledge, usual: Mapping[str, float]) -> None:
        self._goal, self._knowledge, self._usual = goal, knowledge, usual
        self._commands = {action: command_of(action) for action in knowledge.actions}
        self._places = [c.place for c in self._commands.values() if c.verb == "go"]
        self._elsewhere = [place for place in self._places if place != knowledge.at]

    def fetch(self) -> tuple[str, str]:
        """Take the goal's thing, go where it was seen, or search."""
        goal, knowledge = self._goal, self._knowledge
        done = delivered(goal, knowledge)
        if take := self.first(
            "take", lambda c: kind_of(c.thing) == goal.thing and c.thing not in done
        ):
            return take, "this is asked for"
        for thing, place in knowledge.where(goal.thing):
            move = f"{'open' if place == knowledge.at else 'go to'} {place}"
            if thing not in done and move in self._commands:
                return move, f"{thing} was seen there"
        return self.search()

    def change(self) -> tuple[str, str]:
        """Clean, heat or cool the item in hand, or go to a place for it."""
        state = self._goal.state
        if change := self.first(state):
            return change, f"it is to be {state}ed"
        been = self._knowledge.been
        place = min(
            self._elsewhere,
            key=lambda p: (p in been, not _TOOLS[state].search(p), self._tries(p)),
            default="",
        )
        return (f"go to {place}", "to change it there") if place else ("", "no place to change it")

    def deliver(self) -> tuple[str, str]:
        """Put the item in hand at the goal's place."""
        goal, knowledge = self._goal, self._knowledge
        first = _fullest(goal, knowledge)

        def is_target(place: str) -> bool:
            return kind_of(place) == goal.target and first in ("", place)

        if put := self.first("put", lambda c: is_target(c.place)):
            return put, "this is where it is to go"
        if is_target(knowledge.at) and f"open {knowledge.at}" in self._commands:
            return f"open {knowledge.at}", "it is to go in here"
        every = [p for p in self._places if kind_of(p) == goal.target]
        targets = [p for p in ([first] if first else every) if p != knowledge.at] or every
        place = min(targets, key=lambda p: (p in knowledge.been, self._tries(p)), default="")
        return (f"go to {place}", "it is to go there") if place in self._places else self.search()

    def light(self) -> tuple[str, str]:
        """Use a lamp on the thing in hand, or go where one was seen."""
        target = self._goal.target
        if use := self.first("use", lambda c: kind_of(c.thing) == target):
            return use, "the lamp is to shine on it"
        for thing, place in self._knowledge.where(target):
            if place != self._knowledge.at:
                move = f"go to {place}"
                return (move if move in self._commands else ""), f"{thing} was seen there"
        return self.search()

    def search(self) -> tuple[str, str]:
        """Open a closed place here, or go to an unsearched one; after all were seen, begin again."""
        seen, usual = self._knowledge.seen, self._usual
        if opening := self.first("open", lambda c: c.place not in seen):
            return opening, "what is in it is not known"
        unseen = [place for place in self._elsewhere if place not in seen]
        looked = Counter(map(kind_of, seen))
        place = min(
            unseen or self._elsewhere,
            key=lambda p: (
                self._tries(p),
                -max(usual.get(p, 0.0), usual.get(kind_of(p), 0.0)),
                looked[kind_of(p)],
            ),
            default="",
        )
        goal, is_held = self._goal, kind_of(self._knowledge.hand) == self._goal.thing
        again = f"no {goal.target if is_held else goal.thing} left that was seen; to look again"
        why = "nobody looked there yet" if unseen else again
        return (f"go to {place}", why) if place else ("", "nowhere to go")

    def first(self, verb: str, fits: Callable[[Command], bool] = lambda command: True) -> str:
        """Return the first command with a verb that fits, "" if none does."""
        return next((a for a, c in self._commands.items() if c.verb == verb and fits(c)), "")

    def _tries(self, place: str) -> int:
        return self._knowledge.tried.get(f"go to {place}", 0)
