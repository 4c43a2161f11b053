"""``compress`` where parts are shown whole or not at all: the results that another agent's tools gave.

Room goes, as everywhere in ``compress``, to the parts with the least cost for their weight; a part pays
for those that lead it (``Chunk.data["leads"]``: places in its result) unless they are shown already.
"""

from collections.abc import Mapping, Sequence

from envs.protocols import Chunk
from nodes.build_context.assemble import built
from nodes.protocols import BuiltContext, Piece
from nodes.retrieval.history import HistorySource, shown_text


def fit_parts(source: HistorySource, budget: int, weights: Mapping[str, float]) -> BuiltContext:
    """Return the parts that fit ``budget`` tokens by cost over weight; all of them have a piece."""
    taken = _chosen(source, budget, weights)
    pieces: list[Piece] = []
    for chunk in source.all():
        text, size = shown_text(chunk), int(chunk.data["size"])
        is_shown = chunk.id in taken and bool(text)
        pieces.append(
            Piece(
                chunk.id, chunk.kind, f"{text}\n" if is_shown else "", (), size,
                size if is_shown else 0, weights.get(chunk.id),
            )
        )  # fmt: skip
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
        needed = [parts[i] for i in (*parts[place].data["leads"], place)]
        needed = [chunk for chunk in needed if chunk.id not in taken]
        size = sum(chunk.data["size"] for chunk in needed)
        if size <= left:
            left -= size
            taken.update(chunk.id for chunk in needed)
    return taken
