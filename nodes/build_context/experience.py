"""``experience``: another builder's context, and what was learned in like situations before.

The advice is a message of its own after the inner context, made anew each step, so last step's is gone;
the inner builder gets the budget that the advice leaves. Each step's state is looked up in a bank:
one embedding, cosine, the best few, no model call. A line of advice reads::

    Experience: Read the features. It ended in full reward 4 steps later. Suggested next: features

The last part names the move (the adapter's ``moves``), for actors that follow advice by rule; a
language model reads the sentence.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from stategate.nodes.build_context.assemble import cut_line
from stategate.nodes.experience.grow import make_of, trust_of, untrusted, updater_make
from stategate.nodes.experience.states import online_state, situation
from stategate.nodes.protocols import (
    BuiltContext,
    ContextBuilder,
    ContextParams,
    ContextRequest,
    Piece,
    Vector,
)
from stategate.nodes.registry import InnerContext
from stategate.nodes.resources import Resources
from stategate.stores.bank.bank import bank_place, seeded
from stategate.stores.bank.search import Hit, StateBank
from stategate.stores.text import one_line
from stategate.stores.tokens import count_tokens

LEAD = "Experience: "
_SHARE = 4  # advice may have this part of the budget at most


@dataclass(frozen=True)
class Advice:
    """Lines to show, the ids of the rows behind them, their likeness, and what did not work."""

    lines: tuple[str, ...]
    rows: tuple[str, ...] = ()
    score: float | None = None
    fallbacks: tuple[str, ...] = ()
    q: float | None = None
    move: str = ""


#: Finds advice for the situation of a request, None where there is none worth giving; the same request
#: and bank give the same advice.
Advisor = Callable[[ContextRequest], Advice | None]


class AdvisedContext(ContextParams):
    """Wrap ``inner`` and add the best advice of a bank (see ``stategate bank``)."""

    inner: InnerContext = Field(
        default={"kind": "full"},
        validate_default=True,
        description="the builder that shows the page",
    )
    bank: str | None = Field(
        default=None,
        description="name ('state' or 'trace' by default) or folder of a bank, or a PostgreSQL "
        "database and a name, such as $STATEGATE_POSTGRES#state",
    )
    vectors: str | None = Field(
        default=None, description="URL of a Chroma server to search on; by default files"
    )
    min_q: float = Field(default=5.0, ge=0, le=10, description="worth that advice must have")
    min_score: float = Field(default=0.1, ge=-1, le=1, description="likeness it must have")
    min_trust: float = Field(
        default=0.5, ge=0, le=1, description="trust that a row's source must have"
    )
    advice_tokens: int = Field(default=120, ge=8, description="tokens the advice may have")

    def advised(self, resources: Resources, advisor: Advisor) -> "ExperienceBuilder":
        """Return the builder that adds what ``advisor`` finds to the inner one."""
        return ExperienceBuilder(self, resources.get(self.inner), advisor)


class ExperienceBuilder:
    """The wrapped builder."""

    def __init__(self, params: AdvisedContext, inner: ContextBuilder, advisor: Advisor) -> None:
        self._params = params
        self._inner = inner
        self.advisor = advisor

    def __call__(self, request: ContextRequest) -> BuiltContext:
        """Build the inner context in what the advice leaves of the budget, and add the advice."""
        advice = self.advisor(request)
        room = min(self._params.advice_tokens, request.budget // _SHARE)
        pieces = _pieces(advice, room) if advice is not None else []
        spent = sum(piece.tokens_after for piece in pieces)
        return self._inner(replace(request, budget=request.budget - spent)).plus(pieces)


def _pieces(advice: Advice, room: int) -> list[Piece]:
    """Return the advice as pieces: its lines (whole ones that fit), then its fallbacks (no text)."""
    pieces: list[Piece] = []
    for i, line in enumerate(advice.lines):
        text = one_line(line if line.startswith(LEAD) else LEAD + line) + "\n"
        before = count_tokens(text)
        if before > room:
            text = cut_line(text, room) if i == 0 else ""
            text = text if len(text) > len(LEAD) + 13 else ""
        after = count_tokens(text)
        room -= after
        name = advice.rows[i] if i < len(advice.rows) else str(i)
        id_ = f"experience:{name}"
        pieces.append(Piece(id_, "experience", text, (), before, after, advice.score))
    notes = [Piece(f"fallback:{note}", "fallback", "", (), 0, 0) for note in advice.fallbacks]
    return [*pieces, *notes]


NEXT = "Suggested next: "
_WIDER = 8  # how much further it looks for states of one kind of situation
_PROOFS = 3  # past tasks in which a move must have had a rival before it counts as proven
_WIDEST = 2000  # states looked at for what the bank at large says of a move


class Experience(AdvisedContext):
    """Add the best advice of a state bank for each step."""

    hint: ClassVar[str] = "another builder's context, with advice from past episodes"
    kind: Literal["experience"] = "experience"
    key: Literal["text", "state", "both"] = Field(
        default="text", description="find states by their text, the recurrent state, or both"
    )
    top_k: int = Field(default=10, ge=1, le=100, description="states looked at")
    gate: Literal["none", "fits", "alike"] = Field(
        default="none",
        description="'fits': the page offers the move; 'alike': and only states in the same kind of "
        "situation count",
    )
    pick: Literal["best", "proven"] = Field(
        default="best",
        description="the nearest state's advice; 'proven': of the move that beat other moves of the "
        "same past tasks",
    )
    margin: float = Field(
        default=0.5, ge=0, description="worth by which a move must beat the others (proven)"
    )
    planted: int = Field(
        default=10,
        ge=0,
        description="records that may be planted: without its best so many past tasks a move must "
        "still be better than others (proven)",
    )

    def build(self, resources: Resources) -> ContextBuilder:
        """Open the bank and build ``inner``. Raises ``UserError`` where the bank does not fit."""
        return self.advised(resources, StateAdvisor(self, resources))


class StateAdvisor:
    """Finds advice for a step. Pure as long as the bank does not grow."""

    def __init__(self, params: Experience, resources: Resources) -> None:
        self._params = params
        self._embedder = resources.embedder if params.key != "state" else None
        make = make_of(self._embedder) if self._embedder is not None else None
        updater = resources.updater_params if params.key != "text" else None
        place = seeded(bank_place(params.bank), resources.view.name, make)
        own = updater_make(updater) if updater else None
        self.bank = StateBank(place, make, own, vectors=params.vectors)
        self._told = resources.experience
        least = params.min_trust
        self._untrusted = lru_cache(maxsize=1)(lambda version: untrusted(self.bank.bank, least))
        self._situation = lru_cache(maxsize=None)(situation)  # a row's text never changes

    def __call__(self, request: ContextRequest) -> Advice | None:
        """Return the best advice that passes the filters."""
        params = self._params
        query = self.query(request)
        if params.gate == "alike":
            hits = self._alike(query, request, params.top_k * _WIDER)[: params.top_k]
        else:
            hits = self._search(query, params.top_k)
        notes = self._left_out(query)
        passed = [hit for hit in hits if self._passes(hit, request)]
        # Decisions of one past state are equally near: among those the one of most worth.
        passed.sort(key=lambda hit: (-round(hit.score, 4), -hit.row.q, hit.row.n))
        if params.pick == "proven":
            proven = self._proven(hits)
            passed = [hit for hit in passed if _move(hit) == proven]
            if passed and (doubt := self._doubt(proven, query, request)):
                passed, notes = [], (*notes, doubt)
        if not passed:
            return Advice((), fallbacks=notes) if notes else None
        best, move = passed[0], _move(passed[0])
        words = self._spelled(request, str(best.row.data["experience"]), move)
        line = f"{LEAD}{words} {NEXT}{move}"
        return Advice((line,), (best.row.id,), best.score, notes, best.row.q, move)

    def _search(self, query: dict[str, Vector], k: int) -> list[Hit]:
        """Return the nearest rows whose source is trusted: others neither advise nor stand as proof."""
        hidden = self._untrusted(self.bank.bank.meta("version"))
        return self.bank.search(query, k, key=self._params.key, hidden=hidden)

    def _left_out(self, query: dict[str, Vector]) -> tuple[str, ...]:
        """Say why the nearest row of all does not advise, where its source is not trusted."""
        hidden = self._untrusted(self.bank.bank.meta("version"))
        if not hidden:
            return ()
        nearest = self.bank.search(query, 1, key=self._params.key)
        if not nearest or nearest[0].row.n not in hidden:
            return ()
        row = nearest[0].row
        return (f"row {row.id} left out: trust {trust_of(row):g}, not {self._params.min_trust:g}",)

    def _alike(self, query: dict[str, Vector], request: ContextRequest, k: int) -> list[Hit]:
        """Return those of one kind of situation among the nearest ``k`` states."""
        now = situation(self._told, online_state(self._told, request))
        hits = self._search(query, k)
        states = [str(hit.row.data.get("state", "")) for hit in hits]
        return [
            h for h, s in zip(hits, states, strict=True) if self._situation(self._told, s) == now
        ]

    def _passes(self, hit: Hit, request: ContextRequest) -> bool:
        params = self._params
        if not hit.row.data.get("experience") or hit.row.q < params.min_q:
            return False
        if hit.score < params.min_score:
            return False
        return params.gate == "none" or self._told.offers(_move(hit), request.observation)

    def query(self, request: ContextRequest) -> dict[str, Vector]:
        """Return the vectors of the request's state: one embedding at most."""
        query: dict[str, Vector] = {}
        if self._embedder is not None:
            query["text"] = self._embedder.embed([online_state(self._told, request)])[0]
        if request.state is not None:
            query["state"] = request.state
        return query

    def _proven(self, hits: Sequence[Hit]) -> str | None:
        """Return the move whose worth (less its standard error) most beats its rivals, by the margin.

        Tasks differ more than moves do, so a move is compared with other moves of the same past task
        only, and a task in which nothing else was tried says nothing.
        """
        lower = {}
        for move, gains in self._contrasts(hits).items():
            if len(gains) >= _PROOFS:
                error = float(np.std(gains, ddof=1)) / len(gains) ** 0.5
                lower[move] = float(np.mean(gains)) - error
        move = max(lower, key=lambda name: (lower[name], name), default="")
        return move if lower and lower[move] >= self._params.margin else None

    def _doubt(self, move: str | None, query: dict[str, Vector], request: ContextRequest) -> str:
        """Say why ``move`` is not advised after all: ``planted`` records could have proven it.

        One record speaks in one past task. What is left without a move's best ``planted`` tasks is no
        better than what the others said before the planting, wherever and for whatever it was done.
        """
        most = self._params.planted
        if not most or move is None:
            return ""
        is_alike = self._params.gate == "alike"
        hits = self._alike(query, request, _WIDEST) if is_alike else self._search(query, _WIDEST)
        gains = sorted(self._contrasts(hits).get(move, []))
        rest = gains[: max(len(gains) - most, 0)]
        if rest and float(np.mean(rest)) > 0:
            return ""
        return (
            f"{move} left out: {most} planted records would prove it, {len(gains)} past tasks speak"
        )

    def _contrasts(self, hits: Iterable[Hit]) -> dict[str, list[float]]:
        return contrasts((hit.row.task, _move(hit), hit.row.q) for hit in hits)

    def _spelled(self, request: ContextRequest, words: str, move: str) -> str:
        """Return advice whose first sentence ends in the action that the move comes to for this task.

        A small model takes a description of what to write for what to write.
        """
        action = self._told.action_of(move, request.instruction)
        first, stop, rest = words.partition(". ")
        is_general = first.lower() == self._told.moves.get(move, "").lower()
        return f"{first}: {action}. {rest}" if action and stop and is_general else words


def contrasts(tried: Iterable[tuple[str, str, float]]) -> dict[str, list[float]]:
    """Return for each move, task by task, its mean worth less that of the task's other moves.

    ``tried`` are (task, move, worth).
    """
    of_task: dict[str, dict[str, list[float]]] = {}
    for task, move, q in tried:
        of_task.setdefault(task, {}).setdefault(move, []).append(q)
    gains: dict[str, list[float]] = {}
    for worths in of_task.values():
        for move, own in worths.items():
            others = [q for name, qs in worths.items() if name != move for q in qs]
            if others:
                gains.setdefault(move, []).append(float(np.mean(own) - np.mean(others)))
    return gains


def _move(hit: Hit) -> str:
    return str(hit.row.data.get("move", ""))
