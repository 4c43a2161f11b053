"""ALFWorld's past steps in words: kinds of moves, places searched, where things were found."""

import re
from collections.abc import Hashable, Sequence

from stategate.envs.alfworld.expert import knowledge_of, likeliest_goal
from stategate.envs.alfworld.reading import command_of, kind_of, page_text
from stategate.envs.protocols import Observation
from stategate.nodes.experience.adapter import ExperienceAdapter, Fact
from stategate.stores.traces import Event

_ECHOED = ("go", "open", "close", "take", "put")
_NUMBER = re.compile(r"(?<=[a-z]) \d+\b")


class AlfWorldExperience(ExperienceAdapter):
    """Going, opening, taking, putting, changing, looking."""

    def summary_line(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line, without banner and task."""
        return page_text(page)

    def facts(self, events: Sequence[Event], observation: Observation) -> Sequence[Fact]:
        """Return what is in hand, then what each place held, or its state, at the last visit."""
        pages = {event.t: event.text for event in events if event.kind == "OBS"}
        pairs = [
            (event.text, pages.get(event.t + 1, "")) for event in events if event.kind == "ACT"
        ]
        knowledge = knowledge_of(pairs, observation.text, observation.actions)
        places = {command_of(action).place for action in observation.actions} - {""}
        places |= {knowledge.at, *knowledge.seen, *knowledge.closed} - {""}
        facts = [Fact("in hand", "is", knowledge.hand or "nothing")]
        for place in sorted(places, key=lambda p: (kind_of(p), len(p), p)):
            if place in knowledge.seen:
                things = ", ".join(knowledge.seen[place])
                facts.append(Fact(place, "holds", things or "nothing"))
            else:
                facts.append(
                    Fact(place, "is", "closed" if place in knowledge.closed else "not seen")
                )
        return facts

    def is_echoed(self, action: str) -> bool:
        """Say whether the next page begins with the action, as it does after these verbs."""
        return command_of(action).verb in _ECHOED

    def move_of(self, instruction: str, action: str) -> str:
        """Return the verb and whether it serves the goal, else the command without numbers."""
        command = command_of(action.lower())
        goal = likeliest_goal(instruction)
        if command.verb == "go":
            return "go_target" if kind_of(command.place) == goal.target else "go"
        if command.verb == "take":
            return "take_asked" if kind_of(command.thing) == goal.thing else "take"
        if command.verb == "put":
            is_target = kind_of(command.place) == goal.target
            return "put_asked" if is_target and kind_of(command.thing) == goal.thing else "put"
        return super().move_of(instruction, action) if command.verb == "other" else command.verb

    def situation(self, instruction: str, last: str) -> Hashable:
        """Return the sort of goal, and the last move."""
        goal = likeliest_goal(instruction)
        return (goal.state or ("light" if goal.is_light else f"put {goal.count}"), last)

    def describe(self, instruction: str, page: str, action: str) -> str:
        """Return the command with kinds in the place of things."""
        return self.general(action).capitalize()

    def lessons(self, instruction: str, actions: Sequence[str]) -> tuple[str, ...]:
        """Return where the asked thing was taken: "cup at shelf"."""
        commands = [command_of(action.lower()) for action in actions]
        goal_thing = likeliest_goal(instruction).thing
        return tuple(
            f"{kind_of(c.thing)} at {kind_of(c.place)}"
            for c in commands
            if c.verb == "take" and kind_of(c.thing) == goal_thing
        )

    def general(self, text: str) -> str:
        """Return ``text`` without the numbers of things."""
        return _NUMBER.sub("", text)
