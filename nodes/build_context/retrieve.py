"""``retrieve``: the chunks nearest to a query made of the recurrent state."""

from typing import ClassVar, Literal

from pydantic import Field

from stategate.nodes.build_context.assemble import FramedContext, assemble
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest
from stategate.nodes.resources import Resources


class Retrieve(FramedContext):
    """Show the ``top_k`` chunks by ``query_proj(state)``, in page order.

    ``query="zero_shot"`` needs no second training phase: the action head's expectation is the query.
    Nothing protects affordances: what the state does not expect to need can be lost.
    """

    hint: ClassVar[str] = "only the parts that a learned memory of the episode points to"
    kind: Literal["retrieve"] = "retrieve"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep")
    query: Literal["trained", "zero_shot"] = Field(
        default="trained", description="what makes the query vector"
    )
    checkpoint: str = Field(
        default="",
        description="of stategate train retriever; '' is the one that ships for the updater",
    )

    def checkpoints(self, updater: str) -> tuple[str, ...]:
        """Name the projection, if the query is trained."""
        return (self.checkpoint or f"retriever-{updater}",) if self.query == "trained" else ()

    def build(self, resources: Resources) -> ContextBuilder:
        """Load the projection. Raises ``UserError`` without an updater, or with another one's."""
        from stategate.nodes.build_context.query import rank_by, trained_query, zero_shot_query

        if self.query == "trained":
            query = trained_query(resources, self.checkpoint, self.kind)
        else:
            query = zero_shot_query(resources, self.kind)

        def build_context(request: ContextRequest) -> BuiltContext:
            shown, scores = rank_by(request, query, self.top_k)
            return assemble(request, shown, scores, history=self.history)

        return build_context
