"""ALFWorld's past steps in words: kinds of moves, places searched, where things were found."""

import re
from collections.abc import Hashable, Sequence

from stategate.envs.alfworld.expert import likeliest_goal
from stategate.envs.alfworld.reading import command_of, kind_of, page_text
from stategate.nodes.experience.adapter import ExperienceAdapter

_ECHOED = ("go", "open", "close", "take", "put")
_NUMBER = re.compile(r"(?<=[a-z]) \d+\b")


class AlfWorldExperience(ExperienceAdapter):
    """Going, opening, taking, putting, changing, looking."""

    def summary_line(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line, without banner and task."""
        return page_text(page)

    def is_echoed(self, action: str) -> bool:
        """Say yes of what the next page begins with."""
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
            is_there = kind_of(command.place) == goal.target
            return "put_asked" if is_there and kind_of(command.thing) == goal.thing else "put"
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
