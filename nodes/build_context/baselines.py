"""The baseline builders ``full``, ``window``, ``query_rag`` and ``summary``; none is learned."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import Field

from stategate.envs.protocols import Fragment
from stategate.nodes.build_context.assemble import FramedContext, assemble, line_piece
from stategate.nodes.models.calls import ask
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest, Vector
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.align import match
from stategate.nodes.retrieval.page import BREAK, lead, past_chunk
from stategate.stores.text import one_line
from stategate.stores.tokens import truncate
from stategate.stores.traces import Event


class Full(FramedContext):
    """The whole page from the top; what does not fit the budget is lost."""

    kind: Literal["full"] = "full"

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
            return assemble(request, request.source.all(), history=self.history)

        return build_context


class Window(FramedContext):
    """The page and the last few pages before it, without a selection.

    In a partially observed world these are the last ``events`` steps.
    """

    kind: Literal["window"] = "window"
    events: int = Field(default=6, ge=0, description="how many of the latest events to show")
    event_tokens: int = Field(default=120, ge=8, description="tokens an old page may have")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
            chunks = request.source.all()
            past = [chunk.id for chunk in chunks if chunk.role == "past"]
            if past:  # the last steps, each with what came of it
                too_old = set(past[: max(0, len(past) - self.events)])
                return assemble(request, [chunk for chunk in chunks if chunk.id not in too_old])
            seen_or_done = [event for event in request.events if event.kind != "NOTE"]
            recent = seen_or_done[-self.events :] if self.events else ()
            seen = []
            for event in (event for event in recent if event.kind == "OBS"):
                page = (lead(f"Page seen at step {event.t + 1}: "), Fragment(one_line(event.text)))
                room = self.event_tokens + 1  # with the line break
                seen.append(line_piece(f"event:{event.t}", "event", (*page, BREAK), room))
            actions = sum(event.kind == "ACT" for event in recent)
            return assemble(
                request, request.source.all(), history=min(self.history, actions), events=seen
            )

        return build_context


class TopChunks(FramedContext):
    """Only the ``top_k`` chunks of the page that score best for a query, in page order."""

    top_k: int = Field(default=5, ge=1, description="how many chunks to keep")

    def nearest(
        self, request: ContextRequest, query: Vector, weights: Vector | None = None
    ) -> BuiltContext:
        """Return the context of the chunks nearest to ``query``.

        ``weights`` add the features that a chunk's match with the instruction has (``align``).
        """
        candidates = request.source.search(query, len(request.source.all()))
        scores = {chunk.id: score for chunk, score in candidates if chunk.role != "frame"}
        chunks = [chunk for chunk in request.source.all() if chunk.id in scores]
        if weights is not None and weights.any():
            matches = match(request.instruction, chunks, done_in(request.events)) @ weights
            scores = {c.id: scores[c.id] + float(m) for c, m in zip(chunks, matches, strict=True)}
        best = sorted(chunks, key=lambda chunk: -scores[chunk.id])[: self.top_k]
        return assemble(request, best, scores, history=self.history)


class QueryRag(TopChunks):
    """Only the parts of the page that resemble the instruction; buttons may get lost.

    Those are the ``top_k`` chunks by cosine between instruction and chunk, in page order. Commands
    compete with everything else, as in the published baselines: the audit shows one that was lost.
    """

    kind: Literal["query_rag"] = "query_rag"

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder, which embeds through the shared embedder."""

        def build_context(request: ContextRequest) -> BuiltContext:
            return self.nearest(request, resources.embedder.embed([request.instruction])[0])

        return build_context


def done_in(events: Sequence[Event]) -> frozenset[str]:
    """Return the actions among ``events``, in lower case."""
    return frozenset(event.text.lower() for event in events if event.kind == "ACT")


_SYSTEM = (
    "You keep an agent's notes. Rewrite them, with the new steps, as short as they can be for its "
    "task: what was found where, what was done, what is left. Leave out steps that do not matter, "
    "and answer with the notes alone, one a line."
)
_KEPT = 256  # notes of how many moments are kept


class Summary(FramedContext):
    """Earlier steps as notes that a language model keeps; the page whole."""

    kind: Literal["summary"] = "summary"
    every: int = Field(default=4, ge=1, description="steps between two rewritings of the notes")
    last: int = Field(default=2, ge=0, description="latest steps that stay word for word")
    note_tokens: int = Field(default=120, ge=8, description="tokens that the notes may have")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; the model is asked once there is enough to sum up."""

        @lru_cache(maxsize=_KEPT)
        def rewritten(task: str, before: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
            """Return the notes ``before`` with what the ``new`` steps add."""
            report = "\n".join(("Notes:", *before, "New steps:", *new))
            messages = [SystemMessage(_SYSTEM), HumanMessage(f"Task: {task}\n{report}")]
            reply = ask(resources, messages, max_tokens=2 * self.note_tokens)
            notes = truncate(reply.strip(), self.note_tokens).splitlines()
            return tuple(line for text in notes if (line := one_line(text)))

        def build_context(request: ContextRequest) -> BuiltContext:
            chunks = request.source.all()
            past = [chunk for chunk in chunks if chunk.role == "past"]
            old = past[: max(0, len(past) - self.last) // self.every * self.every]
            if not old:
                return assemble(request, chunks, history=self.history)
            lines: tuple[str, ...] = ()
            for start in range(0, len(old), self.every):
                new = tuple(chunk.text for chunk in old[start : start + self.every])
                lines = rewritten(request.instruction, lines, new)
            page = [past_chunk(f"note:{i}", "", "", line) for i, line in enumerate(lines)]
            page += [chunk for chunk in chunks if chunk not in old]
            return assemble(request, page, history=self.history, page=page)

        return build_context
