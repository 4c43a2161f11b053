"""``rico``: the documents that the model's own gradient asks for, the most relevant one last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nodes.build_context.assemble import FramedContext, assemble, built
from nodes.build_context.render import describe, one_line
from nodes.build_context.rico.backend import Document
from nodes.build_context.rico.prompts import Loss
from nodes.build_context.rico.rankers import Options
from nodes.build_context.rico.weigh import Partner, Weigher, shared_backend
from nodes.protocols import BuiltContext, Chunk, ContextBuilder, ContextRequest, Source, Vector
from stores.document_states import Dtype

if TYPE_CHECKING:
    from nodes.resources import Resources

#: Chunks that carry what the agent can do, or that the frame shows: never weighed, never dropped
#: while the budget lasts.
_FRAME = ("instruction", "header", "notice", "navigation", "buttons", "options")


class Rico(FramedContext):
    """Weigh chunks by the gradient of the instruction's loss, and keep the ``top_k`` best.

    ``fuse_with`` adds the z-scores of BM25 and of the embedder, which was better than each alone.
    Beyond ``candidates`` chunks the embedder chooses which are weighed. Each chunk is read by the
    small model once, ever; its state is kept on disk.
    """

    kind: Literal["rico"] = "rico"
    top_k: int = Field(default=5, ge=1, description="how many chunks to keep besides buttons")
    candidates: int = Field(default=20, ge=1, description="how many chunks to weigh at most")
    model: str = Field(
        default="smollm2-135m", description="asset, folder, .gguf file or hub name of the weigher"
    )
    ranker: Literal[
        "single_gradient", "multistep", "warm_start", "zero_state", "leave_one_out", "loss", "naive"
    ] = "single_gradient"
    fuse_with: tuple[Partner, ...] = ("bm25_stem", "embedder")
    loss: Loss = Field(default="content", description="over content words, or all (mean)")
    steps: int = Field(default=5, ge=1, description="AdamW steps (multistep, warm_start)")
    learning_rate: float = Field(default=0.1, gt=0, description="AdamW's (multistep, warm_start)")
    max_tokens: int = Field(default=300, ge=8, description="the model's tokens a chunk may have")
    states: Dtype = Field(default="fp16", description="how states are kept on disk")

    def build(self, resources: "Resources") -> ContextBuilder:
        """Return the builder; the model is loaded when there is first something to weigh."""
        weigher = Weigher(
            lambda: shared_backend(self.model, self.loss, self.max_tokens),
            lambda: resources.embedder,
            self.ranker,
            self.fuse_with,
            Options(self.steps, self.learning_rate),
            self.states,
        )

        def build_context(request: ContextRequest) -> BuiltContext:
            frame, candidates = self._candidates(request, resources)
            # An instruction without a letter asks for nothing in particular.
            question = one_line(request.instruction) or "What is this about?"
            documents = [Document("", describe(chunk)) for chunk in candidates]
            found = weigher.weigh(question, documents)
            best = [candidates[i] for i in found.order()]
            weights = {c.id: float(w) for c, w in zip(candidates, found.weights, strict=True)}
            return _last_is_best(request, frame, best, best[: self.top_k], weights, self.history)

        return build_context

    def _candidates(
        self, request: ContextRequest, resources: "Resources"
    ) -> tuple[list[Chunk], list[Chunk]]:
        """Split the source into what is shown anyway and the chunks to weigh."""
        chunks = list(request.source.all())
        frame = [c for c in chunks if c.kind in _FRAME or not describe(c)]
        framed = {c.id for c in frame}
        weighed = [c for c in chunks if c.id not in framed]
        if len(weighed) > self.candidates:
            vector = resources.embedder.embed([request.instruction])[0]
            near = request.source.search(vector, self.candidates + len(frame))
            weighed = [c for c, _ in near if c.id not in framed][: self.candidates]
        return frame, weighed


class _Ordered:
    """A request's chunks in another order, so that room goes to the most relevant first."""

    def __init__(self, chunks: Sequence[Chunk], source: Source) -> None:
        self._chunks = tuple(chunks)
        self._source = source

    def all(self) -> Sequence[Chunk]:
        return self._chunks

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        return self._source.search(vector, k)


def _last_is_best(
    request: ContextRequest,
    frame: Sequence[Chunk],
    best: Sequence[Chunk],
    shown: Sequence[Chunk],
    weights: Mapping[str, float],
    history: int,
) -> BuiltContext:
    """Give room to buttons, then to chunks by relevance; write the most relevant chunk last.

    Models read the end of a long context best (the paper's section 4), and what follows the last
    document is only what the frame adds: choices and actions so far.
    """
    kept = {chunk.id for chunk in best}
    rest = [c for c in request.source.all() if c.id not in kept and c not in frame]
    ordered = replace(request, source=_Ordered([*frame, *best, *rest], request.source))
    context = assemble(ordered, [*frame, *shown], weights, history)
    middle = [piece for piece in context.pieces if piece.id in kept]
    if not middle:
        return context
    first = context.pieces.index(middle[0])
    before = [piece for piece in context.pieces[:first] if piece.id not in kept]
    after = [piece for piece in context.pieces[first:] if piece.id not in kept]
    return built((*before, *reversed(middle), *after), context.over_budget)
