"""Gate advice by the learned state, which expects some kinds of action next and others not.

The recurrent state's model foretells the class of the next action (``nodes.update_state``). Advice for
a move of a class that it gives less than a set chance is withheld: other people's past is then no
reason to do what nobody does in a state like this one.
"""

from collections.abc import Collection
from typing import Any

from nodes.protocols import ContextRequest, Updater
from nodes.update_state.views import read_page
from stores.errors import UserError

_CLASSES = {
    "open": "product",
    "next >": "page",
    "back to search": "back",
    "description": "details",
    "features": "details",
    "reviews": "details",
    "attributes": "details",
    "option": "option",
    "other_option": "option",
    "buy now": "buy",
}


class Foresight:
    """Chances of moves by a learned state. Raises ``UserError`` for an updater that foretells none."""

    def __init__(self, updater: Updater | None) -> None:
        self._predict: Any = getattr(updater, "predict", None)
        if self._predict is None:
            raise UserError(
                "context.foreseen asks the learned state for the next action: set updater.kind=gru"
            )

    def moves(
        self, request: ContextRequest, moves: Collection[str], least: float
    ) -> Collection[str]:
        """Return those of ``moves`` whose class of action has chance ``least`` or more."""
        if request.state is None:
            return moves
        chances = self._predict(request.state)
        page = read_page(request.observation.text).kind
        return {move for move in moves if chances.get(class_of(move, page), 0.0) >= least}


def class_of(move: str, page: str) -> str:
    """Return the class of action (``ACTION_CLASSES``) that ``move`` is on a page of that kind."""
    if move.startswith("search"):
        return "search"
    if move == "< prev":
        return "page" if page == "results" else "back"
    return _CLASSES.get(move, "other")
