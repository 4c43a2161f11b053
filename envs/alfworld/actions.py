"""ALFWorld's actions: their classes, and one that does no harm."""

from collections.abc import Sequence

from stategate.envs.alfworld.reading import command_of
from stategate.envs.protocols import ActionVocabulary


class AlfWorldActions(ActionVocabulary):
    """Going, opening, taking, putting, changing, looking."""

    classes: tuple[str, ...] = (
        "go",
        "open",
        "close",
        "take",
        "put",
        "clean",
        "heat",
        "cool",
        "slice",
        "use",
        "examine",
        "look",
        "other",
    )

    def class_of(self, page: str, action: str) -> str:
        """Return the command's verb."""
        return command_of(action.lower()).verb

    def label(self, action: str) -> str:
        """Return the number of a place to go to, whose line says its kind once; else the command."""
        command = command_of(action)
        return command.place.rpartition(" ")[2] if command.verb == "go" else action

    def safe(self, actions: Sequence[str], instruction: str) -> str:
        """Return "look" where it can be done, else what changes least."""
        for wanted in ("look", "inventory", "help"):
            if wanted in actions:
                return wanted
        gentle = [a for a in actions if command_of(a).verb in ("examine", "go")]
        return gentle[0] if gentle else super().safe(actions, instruction)
