"""Weighed chunks on a page: buttons first, the most relevant chunk last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from envs.protocols import Chunk
from nodes.build_context.assemble import assemble, built
from nodes.protocols import BuiltContext, ContextRequest, Source, Vector


class _Ordered:
    """A request's chunks in another order, so that room goes to the most relevant first."""

    def __init__(self, chunks: Sequence[Chunk], source: Source) -> None:
        self._chunks = tuple(chunks)
        self._source = source

    def all(self) -> Sequence[Chunk]:
        return self._chunks

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        return self._source.search(vector, k)


def last_is_best(
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
