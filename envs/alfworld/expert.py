"""A searcher: knows the sort of goal, not where things are; looks, remembers, acts.

All that it goes by is the instruction, past commands with their answers, and the commands of the page.
Given a whole history it is the expert whose episodes train others; given what a prompt shows of one
(``nodes.act.search_heuristic``) it shows what the prompt has lost: it looks again where it does not
know that it looked.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stategate.envs.alfworld.goals import Goal, Room, goals_here, weigh
from stategate.envs.alfworld.reading import (
    STATES,
    carried_in,
    closed_in,
    command_of,
    held_by,
    kind_of,
    place_in,
    things_in,
)

#: Words in the names of places where a thing is likely to reach a state; others are tried after them.
_TOOLS = {
    "clean": re.compile(r"sink|basin|wash|trough|tub"),
    "heat": re.compile(r"microwave|oven|stove"),
    "cool": re.compile(r"fridge|icebox|freez"),
}


@dataclass
class Knowledge:
    """What commands and their answers have told."""

    at: str = ""
    hand: str = ""
    #: Things by the place where they were seen last; a place that was seen closed is not in it.
    seen: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    states: dict[str, set[str]] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    #: Where one has been with what is in hand.
    been: set[str] = field(default_factory=set)
    #: What was put where, or held under which lamp, with the states that it had.
    placed: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)

    def learn(self, action: str, answer: str) -> None:
        """Take in a command and what was said to it ("" where that is not known)."""
        command, is_vain = command_of(action), answer.startswith("Nothing happens")
        if is_vain or command.verb in ("go", "use", *STATES):
            self.tried[action] = self.tried.get(action, 0) + 1
        if is_vain:
            return
        place = command.place or self.at
        if command.verb == "go":
            self.at = command.place
            self.been.add(command.place)
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
            self._place(command.thing, place)
        elif command.verb in ("use", *STATES):
            self.states.setdefault(command.thing, set()).add(command.verb)
            if command.verb == "use" and self.hand:
                self._place(self.hand, command.thing)
        self.look(answer)

    def _place(self, thing: str, place: str) -> None:
        self.placed.append((thing, place, frozenset(self.states.get(thing, ()))))

    def look(self, page: str) -> None:
        """Take in what a page shows."""
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
    """Return what past (command, answer) pairs and the present page tell."""
    known = Knowledge()
    for action, answer in events:
        if action:
            known.learn(action, answer)
        else:
            known.look(answer)
    known.look(page)
    known.hand = held_by(actions, page) or ("" if _is_empty_handed(actions) else known.hand)
    return known


def decide(
    instruction: str,
    known: Knowledge,
    actions: Sequence[str],
    usual: Mapping[str, float] | None = None,
) -> tuple[str, str]:
    """Return (command, reason), "" where nothing is to be done.

    ``usual`` says how likely things of the asked kind are at places, by name or by kind: the likeliest
    are searched first. Without it one place of each kind is searched, then a second of each, and so on.
    """
    goal = goal_here(instruction, known, actions)
    moment = _Moment(goal, known, actions, usual or {})
    if goal.is_light:
        return moment.light()
    if known.hand and kind_of(known.hand) == goal.thing:
        if goal.state and goal.state not in known.states.get(known.hand, set()):
            return moment.change()
        return moment.deliver()
    if known.hand:
        return moment.let_go()
    return moment.fetch()


def goal_here(instruction: str, known: Knowledge, actions: Sequence[str]) -> Goal:
    """Return what ``instruction`` asks most likely, given the room and what was tried in vain.

    A goal that was reached while the game went on was not the one.
    """
    ways = {command_of(action).place for action in actions if action.startswith("go to ")}
    places = {*ways, *known.seen, *known.closed, known.at} - {""}
    things = {kind_of(thing) for here in known.seen.values() for thing in here}
    things |= {kind_of(known.hand)} - {""}
    kinds = frozenset(kind_of(place) for place in places)
    searched = len(known.seen) / max(len(places), 1)
    goals = goals_here(instruction, Room(kinds, frozenset(things), searched))
    return max(goals, key=lambda pair: weigh(pair[1], _is_reached(pair[0], known)))[0]


def _is_reached(goal: Goal, known: Knowledge) -> bool:
    """Say whether a goal was reached at some time: by what was done, or by what lies there."""
    done = {
        (thing, place)
        for thing, place, states in known.placed
        if kind_of(thing) == goal.thing
        and kind_of(place) == goal.target
        and (not goal.state or goal.state in states)
    }
    most = max(Counter(place for _, place in done).values(), default=0)
    return most >= goal.count or len(delivered(goal, known)) >= goal.count


def delivered(goal: Goal, known: Knowledge) -> set[str]:
    """Return the things that are where they are to go already."""
    return _Moment(goal, known, (), {}).delivered()


class _Moment:
    """The choices of one moment."""

    def __init__(
        self,
        goal: Goal,
        known: Knowledge,
        actions: Sequence[str],
        usual: Mapping[str, float],
    ) -> None:
        self._goal = goal
        self._known = known
        self._commands = {action: command_of(action) for action in actions}
        self._usual = usual

    def fetch(self) -> tuple[str, str]:
        """Take what is asked, go where it was seen, or search."""
        goal, known = self._goal, self._known
        done = self.delivered()
        for action, command in self._commands.items():
            is_asked = command.verb == "take" and kind_of(command.thing) == goal.thing
            if is_asked and command.thing not in done:
                return action, "this is asked for"
        for thing, place in known.where(goal.thing):
            if thing not in done:
                found = self._reach(place, f"{thing} was seen there")
                if found[0]:
                    return found
        return self._search()

    def change(self) -> tuple[str, str]:
        """Clean, heat or cool what is in hand, or go where that is done."""
        for action, command in self._commands.items():
            if command.verb == self._goal.state:
                return action, f"it is to be {self._goal.state}ed"
        likely = _TOOLS[self._goal.state]
        places = self._places()
        been = self._known.been
        ordered = sorted(places, key=lambda p: (p in been, not likely.search(p), self._tries(p)))
        fresh = [place for place in ordered if place != self._known.at]
        return self._go(fresh[0], "to change it there") if fresh else ("", "no place to change it")

    def deliver(self) -> tuple[str, str]:
        """Put what is in hand where it is to go."""
        goal, known = self._goal, self._known
        first = self._chosen()
        for action, command in self._commands.items():
            is_there = command.verb == "put" and kind_of(command.place) == goal.target
            if is_there and first in ("", command.place):
                return action, "this is where it is to go"
        if known.at and kind_of(known.at) == goal.target and first in ("", known.at):
            opening = f"open {known.at}"
            if opening in self._commands:
                return opening, "it is to go in here"
        targets = [first] if first else self._of_kind(goal.target)
        targets = [place for place in targets if place != known.at] or self._of_kind(goal.target)
        for place in sorted(targets, key=lambda p: (p in known.been, self._tries(p))):
            found = self._go(place, "it is to go there")
            if found[0]:
                return found
        return self._search()

    def let_go(self) -> tuple[str, str]:
        """Put down what is not asked for."""
        for action, command in self._commands.items():
            if command.verb == "put":
                return action, "this is not asked for"
        return self._search()

    def light(self) -> tuple[str, str]:
        """Hold the thing where a lamp is, and use the lamp."""
        goal, known = self._goal, self._known
        holds = known.hand and kind_of(known.hand) == goal.thing
        if known.hand and not holds:
            return self.let_go()
        if not holds:
            return self.fetch()
        for action, command in self._commands.items():
            if command.verb == "use" and kind_of(command.thing) == goal.target:
                return action, "the lamp is to shine on it"
        for thing, place in known.where(goal.target):
            if place != known.at:
                return self._reach(place, f"{thing} was seen there")
        return self._search()

    def delivered(self) -> set[str]:
        """Return the things that are where they are to go already."""
        goal, known = self._goal, self._known
        if goal.is_light:
            return set()
        there = [(t, p) for t, p in known.where(goal.thing) if kind_of(p) == goal.target]
        if goal.state:
            there = [(t, p) for t, p in there if goal.state in known.states.get(t, set())]
        if goal.count > 1:
            first = self._chosen()
            there = [(t, p) for t, p in there if p == first]
        return {thing for thing, _ in there}

    def _chosen(self) -> str:
        """Return the place where several are to come together: where most are already."""
        if self._goal.count < 2:
            return ""
        goal = self._goal
        places = [p for _, p in self._known.where(goal.thing) if kind_of(p) == goal.target]
        return max(sorted(set(places)), key=places.count) if places else ""

    def _search(self) -> tuple[str, str]:
        """Open what is here, or go where nobody has looked; where all was seen, begin again."""
        known = self._known
        for action, command in self._commands.items():
            if command.verb == "open" and command.place not in known.seen:
                return action, "what is in it is not known"
        places = [p for p in self._places() if p != known.at]
        unseen = [p for p in places if p not in known.seen]
        order = {place: i for i, place in enumerate(places)}
        looked = Counter(kind_of(place) for place in known.seen)
        for place in sorted(
            unseen or places,
            key=lambda p: (
                self._tries(p),
                -max(self._usual.get(p, 0.0), self._usual.get(kind_of(p), 0.0)),
                looked[kind_of(p)],
                order[p],
            ),
        ):
            found = self._go(place, "nobody looked there yet" if unseen else "to look again")
            if found[0]:
                return found
        return "", "nowhere to go"

    def _reach(self, place: str, why: str) -> tuple[str, str]:
        """Go to a place; at it, open it."""
        if place == self._known.at:
            opening = f"open {place}"
            return (opening, why) if opening in self._commands else ("", why)
        return self._go(place, why)

    def _go(self, place: str, why: str) -> tuple[str, str]:
        action = f"go to {place}"
        return (action, why) if action in self._commands else ("", why)

    def _places(self) -> list[str]:
        return [c.place for c in self._commands.values() if c.verb == "go"]

    def _of_kind(self, kind: str) -> list[str]:
        return [place for place in self._places() if kind_of(place) == kind]

    def _tries(self, place: str) -> int:
        return self._known.tried.get(f"go to {place}", 0)


def _is_empty_handed(actions: Sequence[str]) -> bool:
    return any(command_of(action).verb == "take" for action in actions)
