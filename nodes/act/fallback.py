"""What an actor does when it has no sensible choice of its own: something that undoes, not buys."""

import re
from collections.abc import Sequence

from envs.protocols import ANSWER, SEARCH, answer

_RETREATS = ("click[< prev]", "click[back to search]")
_BUY = "click[buy now]"
#: What is said where nothing is known: better than a guess.
UNKNOWN = "I do not know."
_PRICE = re.compile(r",? and price lower than .*$")


def safe_action(actions: Sequence[str], instruction: str) -> str:
    """Return an action that can do no harm: back, a search for the instruction, anything but buying.

    ``actions`` are the affordances that the actor can read. With none, the answer is a search, which
    the shop accepts on any page; so it is where nothing but "buy now" is left.
    """
    if ANSWER in actions:
        return answer(UNKNOWN)
    for retreat in _RETREATS:
        if retreat in actions:
            return retreat
    others = [action for action in actions if action not in (SEARCH, _BUY)]
    if SEARCH in actions or not others:
        return f"search[{_words(instruction)}]"
    return others[0]


def _words(instruction: str) -> str:
    plain = _PRICE.sub("", instruction).removeprefix("Instruction:").strip()
    plain = plain.removeprefix("Find me ").replace("[", " ").replace("]", " ")
    return " ".join(plain.split()) or "popular products"
