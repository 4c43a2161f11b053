"""Advice for a step from the state bank: serialise, embed once, search, filter, take the first.

A line of advice reads::

    Experience: Read the features. It ended in full reward 4 steps later. Suggested next: features

The last part names the move (``nodes.experience.returns.MOVES``), for actors that follow advice by
rule; a language model reads the sentence.
"""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nodes.act.shop.reading import read_wish, search_words
from nodes.experience.foresight import Foresight
from nodes.experience.grow import make_of, updater_make
from nodes.experience.states import online_state, situation
from nodes.experience.trajectory import is_product
from nodes.protocols import ContextRequest, Vector
from stores.bank.state_bank import Hit, StateBank
from stores.home import home

if TYPE_CHECKING:
    from nodes.build_context.experience import Experience
    from nodes.resources import Resources

LEAD = "Experience: "
NEXT = "Suggested next: "
_WIDER = 8  # how much further it looks for states of one kind of situation
_PROOFS = 3  # past tasks in which a move must have had a rival before it counts as proven
_BUTTONS: tuple[str, ...] = (
    "next >",
    "< prev",
    "back to search",
    "description",
    "features",
    "reviews",
)
_BUTTONS += ("attributes", "buy now")


@dataclass(frozen=True)
class Advice:
    """Lines to show, the ids of the rows behind them, their likeness, and what did not work."""

    lines: tuple[str, ...]
    rows: tuple[str, ...] = ()
    score: float | None = None
    fallbacks: tuple[str, ...] = ()
    q: float | None = None
    move: str = ""


class StateAdvisor:
    """The advisor of ``mode: state``. Pure as long as the bank does not grow."""

    def __init__(self, params: "Experience", resources: "Resources") -> None:
        self._params = params
        self._embedder = resources.embedder if params.key != "state" else None
        make = make_of(self._embedder) if self._embedder is not None else None
        updater = resources.updater_params if params.key != "text" else None
        folder = params.bank or home() / "banks" / "state"
        self.bank = StateBank(Path(folder), make, updater_make(updater) if updater else None)
        self._foresight = Foresight(resources.updater) if params.foreseen else None
        self._situations: dict[str, tuple[bool, str]] = {}

    def __call__(self, request: ContextRequest) -> Advice | None:
        """Return the best advice that passes the filters."""
        params = self._params
        query = self.query(request)
        if params.pick == "random":
            hits = self._random(query)
        elif params.gate == "alike":
            hits = self._alike(query, situation(online_state(request)))
        else:
            hits = self.bank.search(query, params.top_k, key=params.key)
        passed = [hit for hit in hits if self._passes(hit, request)]
        if self._foresight is not None:
            likely = self._foresight.moves(request, {_move(hit) for hit in passed}, params.foreseen)
            passed = [hit for hit in passed if _move(hit) in likely]
        # Decisions of one past state are equally near: among those the one of most worth.
        passed.sort(key=lambda hit: (-round(hit.score, 4), -self._q(hit), hit.row.n))
        if params.pick == "vote":
            passed = self._voted(hits, passed)
        elif params.pick == "proven":
            passed = self._proven(hits, passed)
        elif params.gate == "agrees":
            edges = self._edges(hits)
            passed = [hit for hit in passed if edges[_move(hit)] >= params.margin]
        if not passed:
            return None
        best = passed[0]
        told = _concrete(str(best.row.data["experience"]), _move(best), request.instruction)
        line = f"{LEAD}{told} {NEXT}{_move(best)}"
        return Advice((line,), (best.row.id,), best.score, (), self._q(best), _move(best))

    def _alike(self, query: dict[str, Vector], now: tuple[bool, str]) -> list[Hit]:
        """Return the nearest ``top_k`` states of one kind of situation, of ``_WIDER`` times as many."""
        params = self._params
        found = self.bank.search(query, params.top_k * _WIDER, key=params.key)
        return [hit for hit in found if self._situation(hit) == now][: params.top_k]

    def _situation(self, hit: Hit) -> tuple[bool, str]:
        """Read a row's situation from its text, once: it never changes."""
        known = self._situations.get(hit.row.id)
        if known is None:
            known = situation(str(hit.row.data.get("state", "")))
            self._situations[hit.row.id] = known
        return known

    def _passes(self, hit: Hit, request: ContextRequest) -> bool:
        params = self._params
        if not hit.row.data.get("experience") or self._q(hit) < params.min_q:
            return False
        if hit.score < params.min_score and params.pick != "random":
            return False
        return params.gate == "none" or offered(_move(hit), request)

    def query(self, request: ContextRequest) -> dict[str, Vector]:
        """Return the vectors of the request's state: one embedding at most."""
        query: dict[str, Vector] = {}
        if self._embedder is not None:
            query["text"] = self._embedder.embed([online_state(request)])[0]
        if request.state is not None:
            query["state"] = request.state
        return query

    def _edges(self, hits: Sequence[Hit]) -> dict[str, float]:
        """Return how much more each move was worth in the states found than the other moves.

        Where only one move was ever made nothing speaks against it: it gets the margin.
        """
        worths: dict[str, list[float]] = {}
        for hit in hits:
            worths.setdefault(_move(hit), []).append(self._q(hit))
        edges = {}
        for move, own in worths.items():
            others = [q for other, qs in worths.items() if other != move for q in qs]
            edges[move] = float(np.mean(own) - np.mean(others)) if others else self._params.margin
        return edges

    def _voted(self, hits: Sequence[Hit], passed: list[Hit]) -> list[Hit]:
        """Keep the move of most mean worth among the states found, if it wins by the margin."""
        edges = self._edges(hits)
        move = max(edges, key=lambda name: (edges[name], name), default="")
        wins = bool(edges) and edges[move] >= self._params.margin
        return [hit for hit in passed if _move(hit) == move] if wins else []

    def _proven(self, hits: Sequence[Hit], passed: list[Hit]) -> list[Hit]:
        """Keep the move whose worth (less its standard error) beats its rivals by the margin and most.

        Tasks differ more than moves do, so a move is compared with other moves of the same past task
        only, and a task in which nothing else was tried says nothing.
        """
        lower = {}
        for move, gains in contrasts(
            [(hit.row.task, _move(hit), self._q(hit)) for hit in hits]
        ).items():
            if len(gains) >= _PROOFS:
                error = float(np.std(gains, ddof=1)) / len(gains) ** 0.5
                lower[move] = float(np.mean(gains)) - error
        move = max(lower, key=lambda name: (lower[name], name), default="")
        wins = bool(lower) and lower[move] >= self._params.margin
        return [hit for hit in passed if _move(hit) == move] if wins else []

    def _random(self, query: dict[str, Vector]) -> list[Hit]:
        """Return ten rows of the bank, drawn by the state: any rows, but always the same ones."""
        size = int(self.bank.bank.query("select max(n) as n from rows")[0]["n"] or 0)
        seed = b"".join(vector.tobytes() for vector in query.values())
        rng = random.Random(f"{self._params.seed}{hashlib.sha256(seed).hexdigest()}")
        numbers = [rng.randint(1, max(size, 1)) for _ in range(self._params.top_k)]
        return [Hit(row, 0.0) for row in self.bank.bank.rows(list(dict.fromkeys(numbers)))]

    def _q(self, hit: Hit) -> float:
        """Return the worth of a row; under ``shuffle_q`` that of another row, drawn by its number."""
        if not self._params.shuffle_q:
            return hit.row.q
        worths = self._worths()
        return worths[random.Random(f"{self._params.seed}/{hit.row.n}").randrange(len(worths))]

    def _worths(self) -> list[float]:
        version = self.bank.bank.meta("version")
        if getattr(self, "_dealt", ("", []))[0] != version:
            found = self.bank.bank.query("select q from rows order by n")
            self._dealt: tuple[str, list[float]] = (version, [float(row["q"]) for row in found])
        return self._dealt[1]


def contrasts(tried: Iterable[tuple[str, str, float]]) -> dict[str, list[float]]:
    """Return for each move, task by task, its mean worth less that of the task's other moves.

    ``tried`` are (task, move, worth).
    """
    of_task: dict[str, dict[str, list[float]]] = {}
    for task, move, q in tried:
        of_task.setdefault(task, {}).setdefault(move, []).append(q)
    found: dict[str, list[float]] = {}
    for worths in of_task.values():
        for move, own in worths.items():
            others = [q for name, qs in worths.items() if name != move for q in qs]
            if others:
                found.setdefault(move, []).append(float(np.mean(own) - np.mean(others)))
    return found


def _concrete(words: str, move: str, instruction: str) -> str:
    """Return advice to search with the words it comes to for this task, as its first sentence ends.

    A small model takes "the kind of thing and the options" for the words to search for.
    """
    query = search_words(read_wish(instruction), move) if move.startswith("search") else ""
    first, stop, rest = words.partition(". ")
    if not query or not words.startswith("Search with ") or not stop:
        return words
    return f"{first}: search[{query}]. {rest}"


def _move(hit: Hit) -> str:
    return str(hit.row.data.get("move", ""))


def offered(move: str, request: ContextRequest) -> bool:
    """Say whether the page of ``request`` offers ``move`` at all."""
    targets = [
        action.removeprefix("click[").removesuffix("]")
        for action in request.observation.actions
        if action.startswith("click[")
    ]
    has_search = len(targets) < len(request.observation.actions)
    if move.startswith("search"):
        return has_search
    if move == "open":
        return any(is_product(target) for target in targets)
    if move in ("option", "other_option"):
        return any(t not in _BUTTONS and not is_product(t) for t in targets)
    return move in targets or move not in _BUTTONS
