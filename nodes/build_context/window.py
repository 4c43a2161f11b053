"""``window``: the page and the last few events, as plain agents keep them. No learning."""

from typing import Literal

from pydantic import Field

from nodes.build_context.assemble import FramedContext, assemble
from nodes.protocols import BuiltContext, ContextBuilder, ContextRequest, Piece
from nodes.resources import Resources
from stores.text import one_line
from stores.tokens import count_tokens, truncate


class Window(FramedContext):
    """Show the page, and before the actions the pages that the last ``events`` events showed."""

    kind: Literal["window"] = "window"
    events: int = Field(default=6, ge=0, description="how many of the latest events to show")
    event_tokens: int = Field(default=120, ge=8, description="tokens an old page may have")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
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
