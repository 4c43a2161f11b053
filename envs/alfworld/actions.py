"""ALFWorld's actions: their classes, and the kinds of moves that experience tells of."""

import re
from collections.abc import Hashable, Mapping, Sequence

from stategate.envs.alfworld.reading import STATES, command_of, goal_of, kind_of
from stategate.envs.protocols import ActionVocabulary, Observation

MOVES = {
    "go_target": "go to where the thing is to end up",
    "go": "go to another place and look there",
    "open": "open it",
    "close": "close it",
    "take_asked": "take the thing that is asked for",
    "take": "take another thing",
    "put_asked": "put the thing where it is asked",
    "put": "put the thing down elsewhere",
    "clean": "clean the thing in hand",
    "heat": "heat the thing in hand",
    "cool": "cool the thing in hand",
    "slice": "slice the thing",
    "use": "switch it on or off",
    "examine": "look at it closely",
    "look": "look around",
    "answer": "give the answer",
}
_ECHOED = ("go", "open", "close", "take", "put")
_NUMBER = re.compile(r"(?<=[a-z]) \d+\b")


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
    prototypes: Mapping[str, str] = {
        "go": "go to cabinet 1 | go to desk 1 | go to fridge 1",
        "open": "open drawer 1",
        "close": "close drawer 1",
        "take": "take apple 1 from countertop 1",
        "put": "move apple 1 to fridge 1",
        "clean": "clean plate 1 with sinkbasin 1",
        "heat": "heat plate 1 with microwave 1",
        "cool": "cool plate 1 with fridge 1",
        "slice": "slice apple 1 with knife 1",
        "use": "use desklamp 1",
        "examine": "examine desk 1",
        "look": "look | inventory | help",
    }
    moves: Mapping[str, str] = MOVES

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

    def is_echoed(self, action: str) -> bool:
        """Say yes of what the next page begins with."""
        return command_of(action).verb in _ECHOED

    def move_of(self, instruction: str, action: str) -> str:
        """Return a key of :data:`MOVES`, else the command without numbers."""
        command = command_of(action.lower())
        goal = goal_of(instruction)
        if command.verb == "go":
            return "go_target" if kind_of(command.place) == goal.target else "go"
        if command.verb == "take":
            return "take_asked" if kind_of(command.thing) == goal.thing else "take"
        if command.verb == "put":
            is_there = kind_of(command.place) == goal.target
            return "put_asked" if is_there and kind_of(command.thing) == goal.thing else "put"
        return command.verb if command.verb in MOVES else super().move_of(instruction, action)

    def offers(self, move: str, observation: Observation) -> bool:
        """Say whether the page offers a move of this kind (whatever was asked)."""
        verb = move.partition("_")[0]
        return any(command_of(action).verb == verb for action in observation.actions)

    def situation(self, instruction: str, last: str) -> Hashable:
        """Return the sort of goal, and the last move."""
        goal = goal_of(instruction)
        return (goal.state or ("light" if goal.is_light else f"put {goal.count}"), last)

    def tell(self, instruction: str, page: str, action: str) -> str:
        """Say the move, and the kinds of things that it was about."""
        return _NUMBER.sub("", action).capitalize()

    def lessons(self, instruction: str, actions: Sequence[str]) -> tuple[str, ...]:
        """Return where the asked thing was taken: "cup at shelf"."""
        taken = [command_of(action.lower()) for action in actions]
        asked = goal_of(instruction).thing
        return tuple(
            f"{kind_of(c.thing)} at {kind_of(c.place)}"
            for c in taken
            if c.verb == "take" and kind_of(c.thing) == asked
        )

    def general(self, text: str) -> str:
        """Return ``text`` without the numbers of things."""
        return _NUMBER.sub("", text)


#: Verbs that change a thing in hand.
CHANGES = tuple(STATES)
