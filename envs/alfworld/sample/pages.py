"""A few invented pages, for the conformance kit and the tests of views."""

from collections.abc import Sequence

from stategate.envs.protocols import Observation

INSTRUCTION = "put a clean jug in sideboard."
_GO = ("go to pantry 1", "go to sideboard 1", "go to washstand 1", "go to worktop 1")
_SELF = ("help", "inventory", "look")


def observations() -> Sequence[Observation]:
    """Return a first page, a closed place, an open one, one with a thing in hand, and the end."""
    first = (
        "-= A household =-\n\nYou are in the middle of a kitchen. Around you, you see a pantry 1, a "
        "sideboard 1, a washstand 1, and a worktop 1.\n\n"
        f"Your task is to: {INSTRUCTION}"
    )
    there = tuple(action for action in _GO if not action.endswith("pantry 1"))
    sink = tuple(action for action in _GO if not action.endswith("washstand 1"))
    return (
        Observation(first, tuple(sorted((*_GO, *_SELF)))),
        Observation(
            "You arrive at pantry 1. The pantry 1 is closed.",
            tuple(sorted(("examine pantry 1", "open pantry 1", *there, *_SELF))),
        ),
        Observation(
            "You open the pantry 1. The pantry 1 is open. In it, you see a jug 2, and a mustardjar 1.",
            tuple(
                sorted(
                    (
                        "close pantry 1",
                        "examine pantry 1",
                        "take jug 2 from pantry 1",
                        "take mustardjar 1 from pantry 1",
                        *there,
                        *_SELF,
                    )
                )
            ),
        ),
        Observation(
            "You arrive at washstand 1. On the washstand 1, you see nothing.",
            tuple(
                sorted(
                    (
                        "clean jug 2 with washstand 1",
                        "examine jug 2",
                        "examine washstand 1",
                        "move jug 2 to washstand 1",
                        *sink,
                        *_SELF,
                    )
                )
            ),
        ),
        Observation("Nothing happens.", tuple(sorted((*_GO, *_SELF)))),
        Observation("You move the jug 2 to the sideboard 1.", ("look",), 1.0, True),
    )
