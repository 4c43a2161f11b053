"""``full``, ``window`` and ``query_rag``: what plain agents read. Nothing is learned here."""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from stategate.envs.protocols import Fragment
from stategate.nodes.build_context.assemble import FramedContext, assemble, head_of, line_piece
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import BREAK, text_of
from stategate.stores.text import one_line
from stategate.stores.tokens import count_tokens, truncate


class Full(FramedContext):
    """Show every chunk of the page from the top; what is past the budget is lost."""

    hint: ClassVar[str] = "the whole page from the top; what does not fit the budget is lost"
    kind: Literal["full"] = "full"

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
            return assemble(request, request.source.all(), history=self.history)

        return build_context


class Window(FramedContext):
    """Show the page, and before the actions the pages that the last ``events`` events showed.

    Where pages do not tell what was seen before, these are the last ``events`` steps.
    """

    hint: ClassVar[str] = "the page, and the last few pages before it; nothing is chosen"
    kind: Literal["window"] = "window"
    events: int = Field(default=6, ge=0, description="how many of the latest events to show")
    event_tokens: int = Field(default=120, ge=8, description="tokens an old page may have")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
            chunks = request.source.all()
            past = [chunk.id for chunk in chunks if chunk.role == "past"]
            if past:  # the last steps, each with what came of it
                gone = set(past[: max(0, len(past) - self.events)])
                return assemble(request, [chunk for chunk in chunks if chunk.id not in gone])
            seen_or_done = [event for event in request.events if event.kind != "NOTE"]
            recent = seen_or_done[-self.events :] if self.events else ()
            seen = []
            for event in (event for event in recent if event.kind == "OBS"):
                lead = Fragment(f"Page seen at step {event.t + 1}: ", role="lead")
                page = (lead, Fragment(one_line(event.text)))
                text = truncate(text_of(page), self.event_tokens).rstrip()
                piece = line_piece(f"event:{event.t}", "event", (*head_of(page, len(text)), BREAK))
                seen.append(replace(piece, tokens_before=count_tokens(text_of(page))))
            actions = sum(event.kind == "ACT" for event in recent)
            return assemble(
                request, request.source.all(), history=min(self.history, actions), events=seen
            )

        return build_context


class QueryRag(FramedContext):
    """Show the ``top_k`` chunks by cosine between instruction and chunk, in page order.

    Commands compete with everything else, as in the published baselines: what the instruction does
    not resemble can be lost, and the audit shows it.
    """

    hint: ClassVar[str] = (
        "only the parts of the page that resemble what is asked; buttons may get lost"
    )
    kind: Literal["query_rag"] = "query_rag"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder, which embeds through the shared embedder."""

        def build_context(request: ContextRequest) -> BuiltContext:
            vector = resources.embedder.embed([request.instruction])[0]
            near = request.source.search(vector, len(request.source.all()))
            ranked = [(chunk, score) for chunk, score in near if chunk.role != "frame"]
            shown = [chunk for chunk, _ in ranked[: self.top_k]]
            scores = {chunk.id: score for chunk, score in ranked}
            return assemble(request, shown, scores, history=self.history)

        return build_context
