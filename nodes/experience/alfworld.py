"""ALFWorld's past steps in words: pages on one line, where things were found."""

from collections.abc import Sequence

from stategate.envs.alfworld.expert import likeliest_goal
from stategate.envs.alfworld.reading import command_of, kind_of, page_text
from stategate.nodes.experience.adapter import ExperienceAdapter

_ECHOED = ("go", "open", "close", "take", "put")


class AlfWorldExperience(ExperienceAdapter):
    """Going, opening, taking, putting, changing, looking."""

    def summary_line(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line, without banner and task."""
        return page_text(page)

    def is_echoed(self, action: str) -> bool:
        """Say whether the next page begins with the action, as it does after these verbs."""
        return command_of(action).verb in _ECHOED

    def lessons(self, instruction: str, actions: Sequence[str]) -> tuple[str, ...]:
        """Return where the asked thing was taken: "cup at shelf"."""
        commands = [command_of(action.lower()) for action in actions]
        goal_thing = likeliest_goal(instruction).thing
        return tuple(
            f"{kind_of(c.thing)} at {kind_of(c.place)}"
            for c in commands
            if c.verb == "take" and kind_of(c.thing) == goal_thing
        )
