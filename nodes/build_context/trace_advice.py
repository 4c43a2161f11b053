"""``experience_trace``: advice for a task from a trace bank, looked up once an episode.

One search finds the most similar past tasks. Where the world draws lessons of episodes (its adapter's
``lessons``), those of the similar tasks stand in the place of their moves, with how often each was
learned: "Experience: In like tasks: cup at shelf (3), cup at desk (1)."
"""

from collections import Counter
from functools import lru_cache
from typing import ClassVar, Literal

from pydantic import Field

from stategate.nodes.build_context.experience import LEAD, Advice, AdvisedContext
from stategate.nodes.experience.grow import make_of, trust_of
from stategate.nodes.protocols import ContextBuilder, ContextRequest
from stategate.nodes.resources import Resources
from stategate.stores.bank.bank import bank_place
from stategate.stores.bank.search import Hit, TraceBank
from stategate.stores.text import words_of
from stategate.stores.tokens import truncate

PLAN = "Suggested plan: "
_KEPT = 64  # tasks whose advice is remembered: it is the same at every step of an episode
_TAUGHT = 6  # lessons shown
_WIDE = 20  # tasks whose lessons are counted


class ExperienceTrace(AdvisedContext):
    """Add what past attempts at like tasks did, from a trace bank."""

    hint: ClassVar[str] = "another builder's context, with what worked on tasks like this one"
    kind: Literal["experience_trace"] = "experience_trace"
    traces: int = Field(default=3, ge=1, le=20, description="past tasks shown")
    gate: bool = Field(
        default=True, description="only lessons that say something that is asked; of others, none"
    )

    def build(self, resources: Resources) -> ContextBuilder:
        """Open the bank and build ``inner``. Raises ``UserError`` where the bank does not fit."""
        return self.advised(resources, TraceAdvisor(self, resources))


class TraceAdvisor:
    """Finds advice for a task: one retrieval, however many steps it takes."""

    def __init__(self, params: ExperienceTrace, resources: Resources) -> None:
        self._params = params
        self._embedder = resources.embedder
        place = bank_place(params.bank, "trace")
        self.bank = TraceBank(place, make_of(self._embedder), vectors=params.vectors)
        # A bank of another version may know better.
        self._known = lru_cache(maxsize=_KEPT)(lambda question, version: self.advise(question))

    def __call__(self, request: ContextRequest) -> Advice | None:
        """Return the advice for the request's task."""
        return self._known(request.instruction, self.bank.bank.meta("version"))

    def advise(self, question: str) -> Advice | None:
        """Return the advice for ``question``, None where no similar task is worth showing."""
        hits, left_out = self._search(question)
        if not hits:
            return Advice((), (), None, left_out) if left_out else None
        best = hits[0].row
        lines = self._lessons(question, hits) or self._plan(hits)
        rows, plan = tuple(hit.row.id for hit in hits), ", ".join(best.data.get("plan", ()))
        return Advice(tuple(lines), rows, hits[0].score, left_out, best.q, plan)

    def _search(self, question: str) -> tuple[list[Hit], tuple[str, ...]]:
        """Return the similar tasks, best first, and why rows were left out for want of trust."""
        params, hits, left_out = self._params, list[Hit](), list[str]()
        for hit in self.bank.search(self._embedder.embed([question]), _WIDE):
            trust = trust_of(hit.row)
            if hit.score < params.min_score or hit.row.q < params.min_q:
                continue
            if trust < params.min_trust:
                left_out.append(
                    f"row {hit.row.id} left out: trust {trust:g}, not {params.min_trust:g}"
                )
            else:
                hits.append(hit)
        teaches = any(hit.row.data.get("lessons") for hit in hits)
        return (hits if teaches else hits[: params.traces]), tuple(left_out)

    def _lessons(self, question: str, hits: list[Hit]) -> list[str]:
        """Return the line of what like tasks taught, most often first; [] where they taught nothing."""
        taught = [str(lesson) for hit in hits for lesson in hit.row.data.get("lessons", ())]
        if self._params.gate:
            asked = frozenset(words_of(question))
            taught = [
                lesson for lesson in taught if words_of(lesson)[:1] and words_of(lesson)[0] in asked
            ]
        counts = Counter(taught).most_common(_TAUGHT)
        told = ", ".join(f"{lesson} ({n})" for lesson, n in counts)
        return [f"{LEAD}In like tasks: {told}."] if told else []

    def _plan(self, hits: list[Hit]) -> list[str]:
        """Return a line for each similar task: its moves and how it ended; the best one's plan."""
        plan = f"{PLAN}{', '.join(hits[0].row.data.get('plan', ()))}"
        first, *others = (f"{LEAD}{_attempt(hit)}" for hit in hits)
        return [f"{first} {plan}", *others]


def _attempt(hit: Hit) -> str:
    data = hit.row.data
    question = truncate(str(data.get("question", "")), 40)
    moves = ", then ".join(data.get("plan", ()))
    worth = "succeeded" if data.get("correct") else f"earned {data.get('reward', 0):.2f}"
    return f"A like task ({question}) {worth} by: {moves}."
