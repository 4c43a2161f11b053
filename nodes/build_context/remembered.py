"""``remembered``: another builder's context, and what long-term memory knows of the user and the task.

Conversations read memory through ``recall``; this is its counterpart for worlds: what was settled in
earlier tasks of the same user (written by the ``long_term`` memory at the end of an episode) stands in
a message of its own after the inner context.
"""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from stategate.nodes.build_context.recall import MemoryReader, remembered_pieces
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextParams, ContextRequest
from stategate.nodes.registry import InnerContext
from stategate.nodes.resources import Resources

_SHARE = 4  # what is remembered may have this part of the budget at most


class Remembered(ContextParams):
    """Wrap ``inner`` and add what is remembered about the instruction."""

    hint: ClassVar[str] = "another builder's context, with what is remembered of the task"
    kind: Literal["remembered"] = "remembered"
    inner: InnerContext = Field(
        default={"kind": "full"}, validate_default=True, description="the builder of the page"
    )
    memory: MemoryReader = Field(default=MemoryReader(), description="how much of which memory")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder. Raises ``UserError`` if the memory cannot be opened."""
        inner: ContextBuilder = resources.get(self.inner)
        store = self.memory.place.open()

        def build_context(request: ContextRequest) -> BuiltContext:
            room = min(self.memory.tokens, request.budget // _SHARE)
            pieces = remembered_pieces(self.memory, store, resources, request.instruction, room)
            spent = sum(piece.tokens_after for piece in pieces)
            return inner(replace(request, budget=request.budget - spent)).plus(pieces)

        return build_context
