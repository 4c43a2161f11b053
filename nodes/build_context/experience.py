"""``experience`` and ``experience_trace``: another builder's context, and advice from past episodes.

The advice is a message of its own after the inner context, made anew at each step; the inner builder
gets the remaining budget. A line of advice reads::

    Experience: Read the features. It ended in full reward 4 steps later. Suggested next: features

The last part names the move (the adapter's ``moves``): a fragment of its own, for actors that follow
advice by rule; a language model reads the sentence.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import Field

from stategate.envs.protocols import Fragment
from stategate.nodes.build_context.assemble import line_piece, with_pieces
from stategate.nodes.experience.episode import (
    make_of,
    online_state,
    situation_after,
    trust_of,
    untrusted,
)
from stategate.nodes.protocols import ContextBuilder, ContextParams, ContextRequest, Piece
from stategate.nodes.registry import InnerContext
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import BREAK, lead
from stategate.stores.bank import Bank, Hit, bank_place
from stategate.stores.text import one_line, words_of
from stategate.stores.tokens import truncate

LEAD = "Experience: "
NEXT = "Suggested next: "
PLAN = "Suggested plan: "
#: A line of advice.
Line = tuple[Fragment, ...]


def advice_pieces(
    lines: Sequence[Line], hits: Sequence[Hit], notes: Sequence[str], room: int
) -> list[Piece]:
    """Return a piece a line, which ``hits`` advise, and one without text a note of what does not.

    The lines that fit ``room`` tokens are shown; the first is cut.
    """
    pieces: list[Piece] = []
    for i, (line, hit) in enumerate(zip(lines, hits, strict=False)):
        id_ = f"experience:{hit.row.id}"
        piece = line_piece(id_, "experience", (*line, BREAK), room, hits[0].score)
        is_cut = piece.tokens_before > room
        if is_cut and (i or len(piece.text) <= len(LEAD) + 13):
            piece = piece.emptied()
        room -= piece.tokens_after
        pieces.append(piece)
    return [*pieces, *(Piece(f"fallback:{note}", "fallback", "", (), 0, 0) for note in notes)]


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
    min_q: float = Field(default=5.0, ge=0, le=10, description="worth that advice must have")
    min_score: float = Field(default=0.1, ge=-1, le=1, description="likeness it must have")
    min_trust: float = Field(
        default=0.5, ge=0, le=1, description="trust that a row's source must have"
    )
    advice_tokens: int = Field(default=120, ge=8, description="tokens the advice may have")

    def distrusted(self, hit: Hit) -> str:
        """Return the note on a row that is left out because its source is not trusted."""
        return f"row {hit.row.id} left out: trust {trust_of(hit.row):g}, not {self.min_trust:g}"


# By state -----------------------------------------------------------------------------------------

_WIDER = 8  # how much further it looks for states of one kind of situation
_WIDEST = 2000  # states looked at for what the bank at large says of a move
_PROOFS = 3  # past tasks in which a move must have had a rival before it counts as proven
_MARGIN = 0.5  # worth by which a proven move beats the others
_PLANTED = 10  # records that may be planted: they alone prove no move


class Experience(AdvisedContext):
    """Another builder's context, with advice from past episodes. A step costs one embedding."""

    kind: Literal["experience"] = "experience"
    top_k: int = Field(default=10, ge=1, le=100, description="states looked at")
    gate: Literal["none", "proven"] = Field(
        default="none",
        description="'none': the nearest state's advice; 'proven': only a move that the page offers, "
        "and that beat other moves of the same past tasks in the same kind of situation",
    )

    def build(self, resources: Resources) -> ContextBuilder:
        """Open the bank and build ``inner``. Raises ``UserError`` where the bank does not fit."""
        embedder, adapter = resources.embedder, resources.profile.experience
        make = make_of(embedder)
        bank = Bank(bank_place(self.bank), "state", make, create=self.bank is None)
        untrusted_rows = lru_cache(maxsize=1)(lambda version: untrusted(bank, self.min_trust))

        def find(request: ContextRequest, room: int) -> list[Piece]:
            """Return the best advice that passes the filters: pure, unless the bank grows."""
            query = embedder.embed([online_state(adapter, request)])[0]
            last = next((e.text for e in reversed(request.events) if e.kind == "ACT"), "")
            now = situation_after(adapter, request.instruction, last)
            hidden = untrusted_rows(bank.meta("version"))

            def alike(k: int) -> list[Hit]:
                """Return those in the same situation among the nearest ``k`` states."""
                hits = bank.search(query, k, hidden=hidden)
                return [hit for hit in hits if hit.row.data.get("situation") == now]

            is_gated = self.gate == "proven"
            if is_gated:
                hits = alike(self.top_k * _WIDER)[: self.top_k]
            else:
                hits = bank.search(query, self.top_k, hidden=hidden)
            notes: list[str] = []
            if hidden and (nearest := bank.search(query, 1)) and nearest[0].row.n in hidden:
                notes.append(self.distrusted(nearest[0]))
            passed = [
                hit
                for hit in hits
                if hit.row.q >= self.min_q and hit.score >= self.min_score
                if hit.row.data.get("experience")
            ]
            if is_gated:
                proven = _proven(hits)
                is_offered = proven != "" and adapter.offers(
                    proven, request.instruction, request.observation
                )
                passed = [hit for hit in passed if _move(hit) == proven and is_offered]
                if passed and (doubt := _doubt(proven, alike(_WIDEST))):
                    passed, notes = [], [*notes, doubt]
            # Decisions of one past state are equally near: among those the one of most worth.
            passed.sort(key=lambda hit: (-round(hit.score, 4), -hit.row.q, hit.row.n))
            lines = [_suggestion(best) for best in passed[:1]]
            return advice_pieces(lines, passed, notes, room)

        return with_pieces(resources.get(self.inner), self.advice_tokens, find)


def _suggestion(hit: Hit) -> Line:
    """Return the line that gives a row's experience and suggests its move."""
    words = Fragment(one_line(str(hit.row.data["experience"])), role="lesson")
    return (lead(LEAD), words, lead(f" {NEXT}"), Fragment(one_line(_move(hit)), role="move"))


def _proven(hits: Iterable[Hit]) -> str:
    """Return the move whose worth (less its standard error) beats its rivals by the margin, or ""."""
    lower = {}
    for move, gains in _contrasts(hits).items():
        if len(gains) >= _PROOFS:
            error = float(np.std(gains, ddof=1)) / len(gains) ** 0.5
            lower[move] = float(np.mean(gains)) - error
    move = max(lower, key=lambda name: (lower[name], name), default="")
    return move if lower and lower[move] >= _MARGIN else ""


def _doubt(move: str, hits: Iterable[Hit]) -> str:
    """Return why ``move`` is not advised: planted records could have proven it ("" if they could not).

    A planted record changes one past task. So the move must also win on average without its best tasks,
    as many as could be planted.
    """
    gains = sorted(_contrasts(hits).get(move, []))
    remaining = gains[: max(len(gains) - _PLANTED, 0)]
    if remaining and float(np.mean(remaining)) > 0:
        return ""
    tasks = f"{len(gains)} past tasks speak"
    return f"{move} left out: {_PLANTED} planted records would prove it, {tasks}"


def _contrasts(hits: Iterable[Hit]) -> dict[str, list[float]]:
    """Return for each move, task by task, its mean worth less that of the task's other moves.

    Tasks differ more than moves do, so a move is compared with other
    moves of the same past task only, and a task in which nothing else was tried says nothing.
    """
    of_task: dict[str, dict[str, list[float]]] = {}
    for hit in hits:
        of_task.setdefault(hit.row.task, {}).setdefault(_move(hit), []).append(hit.row.q)
    gains: dict[str, list[float]] = {}
    for worths in of_task.values():
        for move, move_worths in worths.items():
            others = [q for name, qs in worths.items() if name != move for q in qs]
            if others:
                gains.setdefault(move, []).append(float(np.mean(move_worths) - np.mean(others)))
    return gains


def _move(hit: Hit) -> str:
    return str(hit.row.data.get("move", ""))


# By task ------------------------------------------------------------------------------------------

_KEPT = 64  # tasks whose advice is remembered: it is the same at every step of an episode
_TAUGHT = 6  # lessons shown
_SHOWN = 3  # past tasks shown where they teach no lessons
_WIDE = 20  # tasks whose lessons are counted


class ExperienceTrace(AdvisedContext):
    """Another builder's context, with what worked on tasks like this one.

    A trace bank is searched once an episode. Where the world draws lessons of episodes (its adapter's
    ``lessons``), those stand in the place of moves, with how often each was learned:
    "In like tasks: cup at shelf (3), cup at desk (1)."
    """

    kind: Literal["experience_trace"] = "experience_trace"

    def build(self, resources: Resources) -> ContextBuilder:
        """Open the bank and build ``inner``. Raises ``UserError`` where the bank does not fit."""
        embedder = resources.embedder
        place = bank_place(self.bank, "trace")
        bank = Bank(place, "trace", make_of(embedder))

        @lru_cache(maxsize=_KEPT)
        def advice(question: str, version: str | None, room: int) -> list[Piece]:
            """Return the advice for ``question``; a bank of another version may know better."""
            best: dict[str, Hit] = {}  # of each task
            for hit in bank.search(embedder.embed([question])[0], 4 * _WIDE):
                best.setdefault(hit.row.task, hit)
            similar = list(best.values())[:_WIDE]
            eligible = [h for h in similar if h.score >= self.min_score and h.row.q >= self.min_q]
            hits = [hit for hit in eligible if trust_of(hit.row) >= self.min_trust]
            notes = [self.distrusted(hit) for hit in eligible if hit not in hits]
            if not any(hit.row.data.get("lessons") for hit in hits):
                hits = hits[:_SHOWN]
            lines = _lessons(question, hits) or _plan(hits) if hits else []
            return advice_pieces(lines, hits, notes, room)

        def find(request: ContextRequest, room: int) -> list[Piece]:
            return advice(request.instruction, bank.meta("version"), room)

        return with_pieces(resources.get(self.inner), self.advice_tokens, find)


def _listed(fragments: Iterable[Fragment]) -> list[Fragment]:
    """Return fragments with commas between them."""
    return [part for one in fragments for part in (lead(", "), one)][1:]


def _lessons(question: str, hits: Sequence[Hit]) -> list[Line]:
    """Return the line of lessons about the question's words, most frequent first; [] without any."""
    question_words = frozenset(words_of(question))
    taught = [str(lesson) for hit in hits for lesson in hit.row.data.get("lessons", ())]
    counts = Counter(
        lesson for lesson in taught if question_words.intersection(words_of(lesson)[:1])
    )
    lessons = [
        Fragment(f"{one_line(lesson)} ({n})", role="lesson", amount=n, name=lesson)
        for lesson, n in counts.most_common(_TAUGHT)
    ]
    return [(lead(f"{LEAD}In like tasks: "), *_listed(lessons), lead("."))] if lessons else []


def _plan(hits: Sequence[Hit]) -> list[Line]:
    """Return a line for each similar task: its moves and how it ended; the best one's plan."""
    plan = (Fragment(one_line(move), role="move") for move in hits[0].row.data.get("plan", ()))
    first, *others = ((lead(LEAD + one_line(_attempt(hit))),) for hit in hits)
    return [(*first, lead(f" {PLAN}"), *_listed(plan)), *others]


def _attempt(hit: Hit) -> str:
    data = hit.row.data
    question = truncate(str(data.get("question", "")), 40)
    moves = ", then ".join(data.get("plan", ()))
    worth = "succeeded" if data.get("correct") else f"earned {data.get('reward', 0):.2f}"
    return f"A like task ({question}) {worth} by: {moves}."
