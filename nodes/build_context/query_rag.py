"""``query_rag``: the chunks nearest to the instruction. What most retrieval agents do."""

from typing import Literal

from pydantic import Field

from envs.protocols import Chunk
from nodes.build_context.assemble import FramedContext, assemble
from nodes.protocols import BuiltContext, ContextBuilder, ContextRequest, Vector
from nodes.resources import Resources


class QueryRag(FramedContext):
    """Show the ``top_k`` chunks by cosine between instruction and chunk, in page order.

    Commands compete with everything else, as in the published baselines: what the instruction does
    not resemble can be lost, and the audit shows it.
    """

    kind: Literal["query_rag"] = "query_rag"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder, which embeds through the shared embedder."""

        def build_context(request: ContextRequest) -> BuiltContext:
            vector = resources.embedder.embed([request.instruction])[0]
            shown, scores = rank_page(request, vector, self.top_k)
            return assemble(request, shown, scores, history=self.history)

        return build_context


def rank_page(
    request: ContextRequest, vector: Vector, top_k: int
) -> tuple[list[Chunk], dict[str, float]]:
    """Return the ``top_k`` chunks by cosine with ``vector``, and the score of every candidate."""
    ranked = request.source.search(vector, len(request.source.all()))
    candidates = [(chunk, score) for chunk, score in ranked if chunk.role != "frame"]
    shown = [chunk for chunk, _ in candidates[:top_k]]
    return shown, {chunk.id: score for chunk, score in candidates}
