"""The search expert: a rule-based policy that searches places for the goal's things.

Its inputs are the instruction, past commands with their answers, and the page's commands. With the
whole history it is the expert whose episodes train others. With a prompt's part of the history
(``nodes.act.search_heuristic``) it measures what the prompt lost: it searches those places again.
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
    item_in_hand,
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
    """The facts about a room that commands and their answers revealed."""

    at: str = ""
    hand: str = ""
    #: Things by the place where they were seen last; a place that was seen closed is not in it.
    seen: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    states: dict[str, set[str]] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    #: Places visited with the item in hand.
    been: set[str] = field(default_factory=set)
    #: (thing, place or lamp, states) of each thing that was put down or held under a lamp.
    placed: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)

    def learn(self, action: str, answer: str) -> None:
        """Update from a command and its answer ("" where the answer is not visible)."""
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
    knowledge = Knowledge()
    for action, answer in events:
        if action:
            knowledge.learn(action, answer)
        else:
            knowledge.look(answer)
    knowledge.look(page)
    is_empty = any(command_of(action).verb == "take" for action in actions)
    knowledge.hand = item_in_hand(actions, page) or ("" if is_empty else knowledge.hand)
    return knowledge


def decide(
    instruction: str,
    knowledge: Knowledge,
    actions: Sequence[str],
    usual: Mapping[str, float] | None = None,
) -> tuple[str, str]:
    """Return (command, reason); the command is "" where no rule applies.

    ``usual`` gives the likelihood of the goal's thing by place or kind of place: the likeliest places
    are searched first. Without it one place of each kind is searched, then a second of each, and so on.
    """
    goal = goal_here(instruction, knowledge, actions)
    moment = _Moment(goal, knowledge, actions, usual or {})
    if goal.is_light:
        return moment.light()
    if knowledge.hand and kind_of(knowledge.hand) == goal.thing:
        if goal.state and goal.state not in knowledge.states.get(knowledge.hand, set()):
            return moment.change()
        return moment.deliver()
    if knowledge.hand:
        return moment.let_go()
    return moment.fetch()


def goal_here(instruction: str, knowledge: Knowledge, actions: Sequence[str]) -> Goal:
    """Return the likeliest goal of ``instruction`` in this room.

    A goal that was reached while the game went on is ruled out.
    """
    reachable = {command_of(action).place for action in actions if action.startswith("go to ")}
    places = {*reachable, *knowledge.seen, *knowledge.closed, knowledge.at} - {""}
    things = {kind_of(thing) for here in knowledge.seen.values() for thing in here}
    things |= {kind_of(knowledge.hand)} - {""}
    kinds = frozenset(kind_of(place) for place in places)
    searched = len(knowledge.seen) / max(len(places), 1)
    goals = goals_here(instruction, Room(kinds, frozenset(things), searched))
    return max(goals, key=lambda pair: weigh(pair[1], _is_reached(pair[0], knowledge)))[0]


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
    return _Moment(goal, knowledge, (), {}).delivered()


class _Moment:
    """The choices of one moment."""

    def __init__(
        self,
        goal: Goal,
        knowledge: Knowledge,
        actions: Sequence[str],
        usual: Mapping[str, float],
    ) -> None:
        self._goal = goal
        self._knowledge = knowledge
        self._commands = {action: command_of(action) for action in actions}
        self._usual = usual

    def fetch(self) -> tuple[str, str]:
        """Take the goal's thing, go where it was seen, or search."""
        goal, knowledge = self._goal, self._knowledge
        done = self.delivered()
        for action, command in self._commands.items():
            is_goal_thing = command.verb == "take" and kind_of(command.thing) == goal.thing
            if is_goal_thing and command.thing not in done:
                return action, "this is asked for"
        for thing, place in knowledge.where(goal.thing):
            if thing not in done:
                move = self._reach(place, f"{thing} was seen there")
                if move[0]:
                    return move
        return self._search()

    def change(self) -> tuple[str, str]:
        """Clean, heat or cool the item in hand, or go to a place for it."""
        for action, command in self._commands.items():
            if command.verb == self._goal.state:
                return action, f"it is to be {self._goal.state}ed"
        likely = _TOOLS[self._goal.state]
        places = self._places()
        been = self._knowledge.been
        ordered = sorted(places, key=lambda p: (p in been, not likely.search(p), self._tries(p)))
        fresh = [place for place in ordered if place != self._knowledge.at]
        return self._go(fresh[0], "to change it there") if fresh else ("", "no place to change it")

    def deliver(self) -> tuple[str, str]:
        """Put the item in hand at the goal's place."""
        goal, knowledge = self._goal, self._knowledge
        first = self._chosen()
        for action, command in self._commands.items():
            is_there = command.verb == "put" and kind_of(command.place) == goal.target
            if is_there and first in ("", command.place):
                return action, "this is where it is to go"
        if knowledge.at and kind_of(knowledge.at) == goal.target and first in ("", knowledge.at):
            opening = f"open {knowledge.at}"
            if opening in self._commands:
                return opening, "it is to go in here"
        targets = [first] if first else self._of_kind(goal.target)
        targets = [place for place in targets if place != knowledge.at] or self._of_kind(
            goal.target
        )
        for place in sorted(targets, key=lambda p: (p in knowledge.been, self._tries(p))):
            move = self._go(place, "it is to go there")
            if move[0]:
                return move
        return self._search()

    def let_go(self) -> tuple[str, str]:
        """Put down an item that is no part of the goal."""
        for action, command in self._commands.items():
            if command.verb == "put":
                return action, "this is not asked for"
        return self._search()

    def light(self) -> tuple[str, str]:
        """Carry the thing to a lamp, and use the lamp."""
        goal, knowledge = self._goal, self._knowledge
        holds = knowledge.hand and kind_of(knowledge.hand) == goal.thing
        if knowledge.hand and not holds:
            return self.let_go()
        if not holds:
            return self.fetch()
        for action, command in self._commands.items():
            if command.verb == "use" and kind_of(command.thing) == goal.target:
                return action, "the lamp is to shine on it"
        for thing, place in knowledge.where(goal.target):
            if place != knowledge.at:
                return self._reach(place, f"{thing} was seen there")
        return self._search()

    def delivered(self) -> set[str]:
        """Return the goal's things that are already at its place."""
        goal, knowledge = self._goal, self._knowledge
        if goal.is_light:
            return set()
        there = [(t, p) for t, p in knowledge.where(goal.thing) if kind_of(p) == goal.target]
        if goal.state:
            there = [(t, p) for t, p in there if goal.state in knowledge.states.get(t, set())]
        if goal.count > 1:
            first = self._chosen()
            there = [(t, p) for t, p in there if p == first]
        return {thing for thing, _ in there}

    def _chosen(self) -> str:
        """Return the place for several things: the one that already holds most of them."""
        if self._goal.count < 2:
            return ""
        goal = self._goal
        places = [p for _, p in self._knowledge.where(goal.thing) if kind_of(p) == goal.target]
        return max(sorted(set(places)), key=places.count) if places else ""

    def _search(self) -> tuple[str, str]:
        """Open a closed place here, or go to an unsearched one; after all were seen, begin again."""
        knowledge = self._knowledge
        for action, command in self._commands.items():
            if command.verb == "open" and command.place not in knowledge.seen:
                return action, "what is in it is not known"
        places = [p for p in self._places() if p != knowledge.at]
        unseen = [p for p in places if p not in knowledge.seen]
        order = {place: i for i, place in enumerate(places)}
        looked = Counter(kind_of(place) for place in knowledge.seen)
        for place in sorted(
            unseen or places,
            key=lambda p: (
                self._tries(p),
                -max(self._usual.get(p, 0.0), self._usual.get(kind_of(p), 0.0)),
                looked[kind_of(p)],
                order[p],
            ),
        ):
            move = self._go(place, "nobody looked there yet" if unseen else "to look again")
            if move[0]:
                return move
        return "", "nowhere to go"

    def _reach(self, place: str, why: str) -> tuple[str, str]:
        """Go to a place; at it, open it."""
        if place == self._knowledge.at:
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
        return self._knowledge.tried.get(f"go to {place}", 0)
