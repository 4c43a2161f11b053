"""Past steps of a world in words: pages for memories, moves for experience.

The optional companion of a world's view. A view reads the current page; an adapter describes past
steps, so that they carry over to later steps and to other tasks. An env kind names its adapter with
``experience()``; a world without one gets the defaults here.
"""

import re
from collections.abc import Hashable, Mapping, Sequence

from stategate.envs.protocols import Observation, verb_of
from stategate.stores.text import one_line

#: The move that opens one of several competing entries.
OPEN = "open"


class ExperienceAdapter:
    """Words for past steps of any world; all methods are pure."""

    #: Kinds of moves, each in words: what advice is made of.
    moves: Mapping[str, str] = {"answer": "give the answer"}

    # What memories keep of a page

    def summary_line(self, page: str, instruction: str = "", *, bare: bool = False) -> str:
        """Return the page on one line, without its first repetition of the instruction.

        ``bare``: also without the world's markup (a plain page has none).
        """
        text, wish = one_line(page), one_line(instruction)
        return text.replace(wish, "", 1).strip() if wish and wish != text else text

    def matched_words(self, observation: Observation, instruction: str) -> str:
        """Return the instruction's words that a page holds, "" for a page that needs no note."""
        return ""

    def is_echoed(self, action: str) -> bool:
        """Say whether the next page names ``action``, so that the history need not."""
        return False

    # What experience says of a move

    def move_of(self, instruction: str, action: str) -> str:
        """Return the kind of move that ``action`` is for this instruction: the action without numbers.

        An action of numbers alone is kept.
        """
        general = one_line(re.sub(r"\d+", "", action.lower()))
        return general if any(c.isalpha() for c in general) else one_line(action.lower())

    def offers(self, move: str, instruction: str, observation: Observation) -> bool:
        """Say whether a page offers a move of this kind: one whose first word is the same."""
        moves = (self.move_of(instruction, action) for action in observation.actions)
        return any(offered.partition("_")[0] == move.partition("_")[0] for offered in moves)

    def situation(self, instruction: str, last: str) -> Hashable:
        """Return the kind of situation after the move ``last``: advice stays within one kind."""
        return verb_of(last)

    def lessons(self, instruction: str, actions: Sequence[str]) -> tuple[str, ...]:
        """Return what an episode taught about its world that may hold in others, a few words each."""
        return ()
