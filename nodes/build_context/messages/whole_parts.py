"""``compress`` for the results that another agent's tools gave: parts shown whole or not at all.

Room goes, as everywhere in ``compress``, to the parts with the least cost for their weight; a part pays
for those that lead it (``Chunk.data["leads"]``: places in its result) unless they are shown already.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.allocators import relevance
from stategate.nodes.build_context.assemble import built, instruction_piece
from stategate.nodes.build_context.compress import Compress
from stategate.nodes.build_context.experience import AdvisedContext
from stategate.nodes.protocols import (
    BuiltContext,
    ContextBuilder,
    ContextParams,
    ContextRequest,
    Piece,
)
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.history import HistorySource, shown_text

_SMALLEST = 3  # tokens that a part has at least
_WEIGHED, _LEAST = 64, 0.05  # parts that a learned allocator weighs; the weight of the others


class CompressResults(Compress):
    """``compress`` over a :class:`HistorySource`; everything else takes ``compress`` itself."""

    def build(self, resources: Resources) -> ContextBuilder:
        """Load what the allocator needs. Raises ``UserError`` where the updater does not fit."""
        allocate = self.allocate_by(resources)

        def build_context(request: ContextRequest) -> BuiltContext:
            chunks = near = request.source.all()
            if self.allocator == "learned" and len(chunks) > _WEIGHED:
                by_words = relevance(request, chunks)  # embedding a part takes milliseconds
                near = sorted(chunks, key=lambda chunk: -by_words[chunk.id])[:_WEIGHED]
            weights = dict.fromkeys((chunk.id for chunk in chunks), _LEAST)
            weights |= allocate(request, near)
            room = request.budget - instruction_piece(request).tokens_before
            return fit_parts(cast(HistorySource, request.source), room, weights)

        return build_context


def for_results(params: ContextParams) -> ContextParams:
    """Return ``params`` with :class:`CompressResults` in the place of ``compress``."""
    if isinstance(params, AdvisedContext):
        return params.model_copy(update={"inner": for_results(params.inner)})
    if type(params) is Compress:
        return CompressResults(**params.model_dump())
    return params


def fit_parts(source: HistorySource, budget: int, weights: Mapping[str, float]) -> BuiltContext:
    """Return the parts that fit ``budget`` tokens by cost over weight; others have no piece."""
    taken = _chosen(source, budget, weights)
    pieces: list[Piece] = []
    for chunk in source.all():
        if chunk.id in taken and (size := int(chunk.data["size"])):
            text = f"{shown_text(chunk)}\n"
            pieces.append(Piece(chunk.id, chunk.kind, text, (), size, size, weights[chunk.id]))
    return built(pieces)


def _chosen(source: HistorySource, budget: int, weights: Mapping[str, float]) -> set[str]:
    order: list[tuple[float, int, Sequence[Chunk], int]] = []
    for chunks in source.by_result.values():
        for place, chunk in enumerate(chunks):
            if not chunk.data["is_lead"]:  # those come with what they lead
                cost = chunk.data["size"] / weights.get(chunk.id, 1.0)
                order.append((cost, len(order), chunks, place))
    order.sort(key=lambda row: row[:2])
    taken: set[str] = set()
    left = budget
    for _, _, parts, place in order:
        if left < _SMALLEST:
            break
        needed = [parts[i] for i in (*parts[place].data["leads"], place)]
        needed = [chunk for chunk in needed if chunk.id not in taken]
        size = sum(chunk.data["size"] for chunk in needed)
        if size <= left:
            left -= size
            taken.update(chunk.id for chunk in needed)
    return taken
