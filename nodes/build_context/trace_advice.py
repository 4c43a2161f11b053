"""``experience_trace``: advice for a task from a trace bank, looked up once an episode.

Rewrite, search, rerank, the best three, summary, check. Where the world draws lessons of episodes
(its adapter's ``lessons``), those of the like tasks stand in the place of their moves, with
how often each was learned: "Experience: In like tasks: cup at shelf (3), cup at desk (1)."

Every step has a fallback, and each one taken is told in ``Advice.fallbacks``:

    rewrite off or failed     the question alone
    rerank failed             order by score
    summary off or failed     the list of moves
    check failed              taken as sufficient
"""

from collections import Counter
from functools import lru_cache
from typing import Any, ClassVar, Literal

from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import Field

from stategate.nodes.build_context.experience import LEAD, Advice, AdvisedContext
from stategate.nodes.experience.grow import make_of, trust_of
from stategate.nodes.models.asking import ask, asking_problems, json_in
from stategate.nodes.protocols import ContextBuilder, ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.ranking import rerank_at, rerank_locally
from stategate.stores.bank.places import bank_place
from stategate.stores.bank.state_bank import Hit
from stategate.stores.bank.trace_bank import TraceBank
from stategate.stores.errors import describe_error
from stategate.stores.text import words_of
from stategate.stores.tokens import truncate

PLAN = "Suggested plan: "
_KEPT = 64  # tasks whose advice is remembered: it is the same at every step of an episode
_TAUGHT = 6  # lessons shown
_WIDE = 20  # tasks that the reranker sees
_REWRITE = (
    "Reword the user's task as search queries for finding like tasks. Answer with a JSON array of "
    "{n} short strings."
)
_SUMMARY = (
    "Sum up in two sentences, for someone who will do a like task, how these past attempts went and "
    "what to do. Name no codes."
)
_CHECK = (
    "Do these past attempts help with the task? Answer with JSON: "
    '{"sufficient": true or false, "query": "what to look for instead"}'
)


class ExperienceTrace(AdvisedContext):
    """Add what past attempts at like tasks did, from a trace bank."""

    hint: ClassVar[str] = "another builder's context, with what worked on tasks like this one"
    kind: Literal["experience_trace"] = "experience_trace"
    traces: int = Field(default=3, ge=1, le=20, description="past tasks shown")
    rewrites: int = Field(default=0, ge=0, le=5, description="rewordings asked of the model")
    rerank: Literal["none", "endpoint", "cross_encoder"] = "none"
    rerank_url: str = Field(default="", description="a /v1/rerank endpoint, such as vLLM's")
    rerank_model: str = ""
    summarise: bool = Field(default=False, description="have the model sum the found traces up")
    rounds: int = Field(
        default=1, ge=1, le=3, description="searches; above 1 the model says when it is enough"
    )
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
        self._resources = resources
        self._embedder = resources.embedder
        place = bank_place(params.bank, "trace")
        self.bank = TraceBank(place, make_of(self._embedder), vectors=params.vectors)
        # A bank of another version may know better.
        self._known = lru_cache(maxsize=_KEPT)(lambda question, version: self.advise(question))

    def __call__(self, request: ContextRequest) -> Advice | None:
        """Return the advice for the request's task."""
        return self._known(request.instruction, self.bank.bank.meta("version"))

    def advise(self, question: str) -> Advice | None:
        """Run the pipeline for ``question``."""
        notes: list[str] = []
        queries = [question, *self._rewrites(question, notes)]
        hits: list[Hit] = []
        for number in range(self._params.rounds):
            hits = self._search(question, queries, notes)
            is_last = number == self._params.rounds - 1
            another = None if is_last else self._another(question, hits, notes)
            if another is None:
                break
            queries.append(another)
        if not hits:
            return Advice((), (), None, tuple(notes)) if notes else None
        best = hits[0].row
        lines = self._lessons(question, hits) or self._summary(question, hits, notes)
        rows, plan = tuple(hit.row.id for hit in hits), ", ".join(best.data.get("plan", ()))
        return Advice(tuple(lines), rows, hits[0].score, tuple(notes), best.q, plan)

    def _rewrites(self, question: str, notes: list[str]) -> list[str]:
        count = self._params.rewrites
        if not count:
            return []
        schema = {"type": "array", "items": {"type": "string"}, "maxItems": count}
        reply = self._ask(_REWRITE.format(n=count), question, notes, "rewrite", schema)
        texts = json_in(reply, list) if reply is not None else []
        if texts is None:
            notes.append("rewrite: unreadable reply, searched by the question alone")
        words = [text.strip() for text in texts or () if isinstance(text, str)]
        return [text for text in words if text][:count]

    def _search(self, question: str, queries: list[str], notes: list[str]) -> list[Hit]:
        params = self._params
        vectors = self._embedder.embed(list(dict.fromkeys(queries)))
        hits = []
        for hit in self.bank.search(vectors, _WIDE):
            if hit.score < params.min_score or hit.row.q < params.min_q:
                continue
            if (trust := trust_of(hit.row)) < params.min_trust:
                notes.append(
                    f"row {hit.row.id} left out: trust {trust:g}, not {params.min_trust:g}"
                )
                continue
            hits.append(hit)
        if params.rerank != "none" and len(hits) > 1:
            texts = [str(hit.row.data.get("question", "")) for hit in hits]
            try:
                if params.rerank == "endpoint":
                    scores = rerank_at(params.rerank_url, params.rerank_model, question, texts)
                else:
                    scores = rerank_locally(params.rerank_model, question, texts)
                hits = [hits[i] for i in sorted(range(len(hits)), key=lambda i: (-scores[i], i))]
            except asking_problems() as error:
                notes.append(f"rerank: {describe_error(error)}, ordered by score")
        return hits if any(hit.row.data.get("lessons") for hit in hits) else hits[: params.traces]

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

    def _summary(self, question: str, hits: list[Hit], notes: list[str]) -> list[str]:
        plan = f"{PLAN}{', '.join(hits[0].row.data.get('plan', ()))}"
        if self._params.summarise:
            reply = self._ask(_SUMMARY, _asked(question, hits), notes, "summary")
            if reply is not None and reply.strip():
                text = truncate(" ".join(reply.split()), self._params.advice_tokens // 2)
                return [f"{LEAD}{text} {plan}"]
            if reply is not None:
                notes.append("summary: empty reply, listed the moves")
        first, *others = (f"{LEAD}{_attempt(hit)}" for hit in hits)
        return [f"{first} {plan}", *others]

    def _another(self, question: str, hits: list[Hit], notes: list[str]) -> str | None:
        """Return what to look for instead, None where what was found is enough."""
        types = {"sufficient": {"type": "boolean"}, "query": {"type": "string"}}
        schema = {"type": "object", "properties": types, "required": list(types)}
        reply = self._ask(_CHECK, _asked(question, hits), notes, "check", schema)
        if reply is None:
            return None
        verdict = json_in(reply, dict)
        if verdict is None or not isinstance(verdict.get("sufficient"), bool):
            notes.append("check: unreadable reply, taken as sufficient")
            return None
        query = str(verdict.get("query") or "").strip()
        return query if not verdict["sufficient"] and query else None

    def _ask(
        self, system: str, asked: str, notes: list[str], step: str, schema: Any = None
    ) -> str | None:
        try:
            messages = [SystemMessage(system), HumanMessage(asked)]
            return ask(self._resources.llm, messages, schema)
        except asking_problems() as error:
            notes.append(f"{step}: {describe_error(error)}")
            return None


def _asked(question: str, hits: list[Hit]) -> str:
    attempts = "\n".join(f"- {_attempt(hit)}" for hit in hits) or "(none)"
    return f"Task: {question}\nPast attempts:\n{attempts}"


def _attempt(hit: Hit) -> str:
    data = hit.row.data
    question = truncate(str(data.get("question", "")), 40)
    moves = ", then ".join(data.get("plan", ()))
    worth = "succeeded" if data.get("correct") else f"earned {data.get('reward', 0):.2f}"
    return f"A like task ({question}) {worth} by: {moves}."
