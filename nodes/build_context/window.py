"""``window``: the page and the last few events, as plain agents keep them. No learning."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nodes.build_context.assemble import FramedContext, assemble
from nodes.protocols import BuiltContext, ContextBuilder, ContextRequest, Piece
from stores.text import one_line
from stores.tokens import count_tokens, truncate

if TYPE_CHECKING:
    from nodes.resources import Resources


class Window(FramedContext):
    """Show the page, and before the actions the pages that the last ``events`` events showed.

    Where pages do not tell what was seen before, these are the last ``events`` steps.
    """

    kind: Literal["window"] = "window"
    events: int = Field(default=6, ge=0, description="how many of the latest events to show")
    event_tokens: int = Field(default=120, ge=8, description="tokens an old page may have")

    def build(self, resources: "Resources") -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
            chunks = request.source.all()
            past = [chunk.id for chunk in chunks if chunk.role == "past"]
            if past:  # the last steps, each with what came of it
                gone = set(past[: max(0, len(past) - self.events)])
                return assemble(request, [chunk for chunk in chunks if chunk.id not in gone])
            recent = request.events[-self.events :] if self.events else ()
            seen = [self._piece(e.t, e.text) for e in recent if e.kind == "OBS"]
            actions = sum(event.kind == "ACT" for event in recent)
            return assemble(
                request,
                request.source.all(),
                history=min(self.history, actions),
                events=seen,
            )

        return build_context

    def _piece(self, step: int, page: str) -> Piece:
        line = f"Page seen at step {step + 1}: {one_line(page)}"
        text = truncate(line, self.event_tokens).rstrip() + "\n"
        return Piece(f"event:{step}", "event", text, (), count_tokens(line), count_tokens(text))
