"""``rico``: the documents that the model's own gradient asks for, the most relevant one last."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.assemble import FramedContext, assemble, built
from stategate.nodes.build_context.recall import ConversationContext, WordSource
from stategate.nodes.build_context.rico.rankers import Partner, Weigher
from stategate.nodes.models.decoders.backend import Document
from stategate.nodes.models.decoders.loading import DocumentMemory, shared_backend
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import describe
from stategate.stores.text import one_line

#: Chunks that carry what the agent can do, or that the frame shows: never weighed, never dropped
#: while the budget lasts.
_FRAME = ("frame", "commands", "choice", "pinned")


class Rico(FramedContext, ConversationContext):
    """Weigh chunks by the gradient of the instruction's loss, and keep the ``top_k`` best.

    ``fuse_with`` adds the z-scores of BM25 and of the embedder, which was better than each alone.
    On a page, beyond ``candidates`` chunks the embedder chooses which are weighed; in a corpus,
    ``retrieval`` does (two stages), and the prompt is that of ``recall``. Each chunk is read by the
    small model once, ever; its state is kept on disk. Every weighed chunk's score is its weight.
    """

    hint: ClassVar[str] = "the parts that would help a small language model most, best last"
    kind: Literal["rico"] = "rico"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep besides buttons")
    candidates: int = Field(default=20, ge=1, description="how many chunks to weigh at most")
    model: str = Field(
        default="smollm2-135m", description="asset, folder, .gguf file or hub name of the weigher"
    )
    fuse_with: tuple[Partner, ...] = Field(
        default=("bm25_stem", "embedder"), description="rankers whose scores are added"
    )
    max_tokens: int = Field(default=300, ge=8, description="the model's tokens a chunk may have")

    def assets(self) -> tuple[str, ...]:
        """Name the weigher, where it is an asset."""
        return (self.model,)

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; the model is loaded when there is first something to weigh."""
        memory = DocumentMemory(lambda: shared_backend(self.model, max_tokens=self.max_tokens))
        weigher = Weigher(memory, lambda: resources.embedder, partners=self.fuse_with)

        def find(request: ContextRequest, query: str) -> tuple[list[tuple[Chunk, float]], int]:
            near = self.candidates_for(request, query, self.candidates, resources)
            chunks = [chunk for chunk, _ in near if chunk.text.strip()]
            titles = [one_line(str(chunk.data.get("title") or "")) for chunk in chunks]
            texts = [one_line(describe(request.view, chunk)) for chunk in chunks]
            documents = [Document(*shown) for shown in zip(titles, texts, strict=True)]
            weighed = weigher.weigh(_asked(query), documents, quiet=False)
            return [(chunks[i], float(weighed.weights[i])) for i in weighed.order()], self.top_k

        answer = self.conversation(resources, find, best_last=True)

        def build_context(request: ContextRequest) -> BuiltContext:
            if isinstance(request.source, WordSource):
                return answer(request)
            frame, candidates = self._candidates(request, resources)
            documents = [Document("", describe(request.view, chunk)) for chunk in candidates]
            weighed = weigher.weigh(_asked(request.instruction), documents)
            best = [candidates[i] for i in weighed.order()]
            weights = {c.id: float(w) for c, w in zip(candidates, weighed.weights, strict=True)}
            return self._best_last(request, frame, best, weights)

        return build_context

    def _candidates(
        self, request: ContextRequest, resources: Resources
    ) -> tuple[list[Chunk], list[Chunk]]:
        """Split the source into what is shown anyway and the chunks to weigh."""
        chunks = list(request.source.all())
        frame = [c for c in chunks if c.role in _FRAME or not describe(request.view, c)]
        framed = {c.id for c in frame}
        weighed = [c for c in chunks if c.id not in framed]
        if len(weighed) > self.candidates:
            vector = resources.embedder.embed([request.instruction])[0]
            near = request.source.search(vector, self.candidates + len(frame))
            weighed = [c for c, _ in near if c.id not in framed][: self.candidates]
        return frame, weighed

    def _best_last(
        self,
        request: ContextRequest,
        frame: Sequence[Chunk],
        best: Sequence[Chunk],
        weights: Mapping[str, float],
    ) -> BuiltContext:
        """Give room to ``frame``, then to chunks by relevance; write the most relevant chunk last.

        Models read the end of a long context best (the paper's section 4), and what follows the last
        document is only what the frame adds: choices and actions so far.
        """
        weighed = {chunk.id for chunk in best}
        rest = [c for c in request.source.all() if c.id not in weighed and c not in frame]
        page = [*frame, *best, *rest]
        context = assemble(request, [*frame, *best[: self.top_k]], weights, self.history, page=page)
        middle = [piece for piece in context.pieces if piece.id in weighed]
        if not middle:
            return context
        first = context.pieces.index(middle[0])
        before = [piece for piece in context.pieces[:first] if piece.id not in weighed]
        after = [piece for piece in context.pieces[first:] if piece.id not in weighed]
        return built((*before, *reversed(middle), *after), context.over_budget)


def _asked(question: str) -> str:
    """Return the question in one line; an empty one asks for nothing in particular."""
    return one_line(question) or "What is this about?"
