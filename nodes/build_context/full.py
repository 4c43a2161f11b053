"""``full``: the whole page, cut at the budget. The baseline that must be beaten."""

from typing import Literal

from nodes.build_context.assemble import FramedContext, assemble
from nodes.protocols import BuiltContext, ContextBuilder, ContextRequest
from nodes.resources import Resources


class Full(FramedContext):
    """Show every chunk of the page from the top; what is past the budget is lost."""

    kind: Literal["full"] = "full"

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
            return assemble(request, request.source.all(), history=self.history)

        return build_context
