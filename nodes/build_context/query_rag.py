"""``query_rag``: the chunks nearest to the instruction. What most retrieval agents do."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nodes.build_context.assemble import FramedContext, assemble
from nodes.protocols import BuiltContext, ContextBuilder, ContextRequest

if TYPE_CHECKING:
    from nodes.resources import Resources


class QueryRag(FramedContext):
    """Show the ``top_k`` chunks by cosine between instruction and chunk, in page order.

    Buttons compete with everything else, as in the published baselines: what the instruction does
    not resemble (such as "buy now") can be lost, and the audit shows it.
    """

    kind: Literal["query_rag"] = "query_rag"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep")

    def build(self, resources: "Resources") -> ContextBuilder:
        """Return the builder, which embeds through the shared embedder."""

        def build_context(request: ContextRequest) -> BuiltContext:
            vector = resources.embedder.embed([request.instruction])[0]
            ranked = request.source.search(vector, len(request.source.all()))
            candidates = [(c, score) for c, score in ranked if c.kind not in _FRAME]
            shown = [chunk for chunk, _ in candidates[: self.top_k]]
            scores = {chunk.id: score for chunk, score in candidates}
            return assemble(request, shown, scores, history=self.history)

        return build_context


#: Chunks that the frame shows or replaces in any case; they do not compete.
_FRAME = ("instruction", "header", "notice")
