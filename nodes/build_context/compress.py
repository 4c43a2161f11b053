"""``compress``: all chunks and affordances stay; the goal's words decide how much detail each keeps.

Tokens are given in this order: the bare affordances; the instruction; then units of detail (see
``nodes.build_context.detail``), tier by tier, all chunks alike. The order of units does not depend on
the budget, and the context shows its longest prefix that fits: a larger budget never removes text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from pydantic import Field

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.assemble import FramedContext, assemble, built, page_piece
from stategate.nodes.build_context.detail import (
    Ladder,
    chunk_ladder,
    echo_ladder,
    instruction_ladder,
    plain_ladder,
)
from stategate.nodes.protocols import FRAME, BuiltContext, ContextBuilder, ContextRequest, Piece
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.align import clarity, focus_on
from stategate.nodes.retrieval.page import LEGEND, done_before, lead, marked, render, text_of
from stategate.nodes.retrieval.quoting import shielded
from stategate.stores.text import without_line_breaks
from stategate.stores.tokens import count_tokens

_UNBOUNDED = 10**9
#: The default ratio, by whether the world is seen in part: what developed best in each.
_RATIO = {True: 0.35, False: 0.65}
#: How clear a page's match must be for the ratio to be kept, chosen likewise.
_CLEAR = {True: 0.3, False: 0.7}
_DETAIL = 40  # tokens of detail that a page may have, however short
_VERDICT = 70  # the same of a page about one thing, where it is taken or left
_UNASKED = 3  # the tier of what nothing asks for
_LAST = 2  # actions that an actor cannot do without


class Compress(FramedContext):
    """Every button stays; words that matter least are left out first.

    Titles are shortened to the words that matter, text to its best clauses.
    """

    kind: Literal["compress"] = "compress"
    ratio: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="of a page's own tokens to keep at most where it is clear what is asked of it "
        f"(default: {_RATIO[True]} where the world is seen in part, {_RATIO[False]} elsewhere)",
    )

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; nothing is loaded."""

        def build_context(request: ContextRequest) -> BuiltContext:
            chunks = request.source.all()
            whole = assemble(replace(request, budget=_UNBOUNDED), chunks, history=self.history)
            is_partial = request.profile.partially_observed
            ratio = _RATIO[is_partial] if self.ratio is None else self.ratio
            if ratio < 1:
                match_clarity = clarity(request)
                # What cannot be told apart must not be dropped: an unclear page keeps up to all of it.
                unclear = max(0.0, 1 - match_clarity / _CLEAR[is_partial])
                ratio += unclear * (1 - ratio)
            allowed = min(request.budget, round(ratio * whole.tokens))
            if whole.tokens <= allowed:
                return whole
            return squeeze(request, whole, allowed)

        return build_context


def squeeze(request: ContextRequest, whole: BuiltContext, allowed: int) -> BuiltContext:
    """Return ``whole`` cut to the first units of detail that fit ``allowed`` tokens (fair queueing).

    Indispensable units (affordances, leads, instruction) may exceed ``allowed`` but not
    ``request.budget``; only the bare affordances may exceed that.
    """
    chunks = {chunk.id: chunk for chunk in request.source.all()}
    is_partial = request.profile.partially_observed
    ladders = _ladders(request, whole.pieces, chunks)
    chosen: list[set[int]] = [set() for _ in ladders]
    show = partial(_context_of, whole.pieces, ladders, chosen, chunks)
    bare = show()
    if bare.tokens >= request.budget:
        return replace(bare, over_budget=bare.tokens > request.budget)
    order = _order(whole.pieces, ladders, chunks)
    # Of a short page nearly all is needed anyway: a share of it would leave nothing of what is asked.
    needed = bare.tokens + sum(cost for tier, _, cost, *_ in order if tier < 0)
    is_alone = not is_partial and all(chunk.role != "entry" for chunk in chunks.values())
    room = _VERDICT if is_alone else _DETAIL
    detail_limit = max(allowed, min(request.budget, needed + room))
    added: list[tuple[int, int]] = []
    spent = bare.tokens
    for tier, _, cost, i, index in order:
        limit = request.budget if tier < 0 else detail_limit if tier < _UNASKED else allowed
        if spent + cost > limit:
            break
        spent += cost
        chosen[i].add(index)
        added.append((i, index))
    context = show()
    while context.tokens > request.budget and added:  # the parts' costs are close, not exact
        i, index = added.pop()
        chosen[i].discard(index)
        context = show()
    return context


def _order(
    pieces: Sequence[Piece], ladders: Sequence[Ladder], chunks: Mapping[str, Chunk]
) -> list[tuple[float, float, int, int, int]]:
    """Return (tier, virtual time, cost, piece, unit's index), sorted: fair queueing.

    A unit's virtual time is the number of tokens that its piece has used of its tier by then. The lines
    of the history share one queue, newest first, and the earlier steps another; each has a weight.
    """
    visible = sum(piece.id in chunks for piece in pieces)
    steps = sum(piece.kind == "event" for piece in pieces)
    weight = {"history": max(visible, 1) / 3, "event": steps}
    order: list[tuple[float, float, int, int, int]] = []
    queues: dict[str, dict[float, float]] = {"history": {}, "event": {}}
    newest_first = sorted(
        range(len(ladders)),
        key=lambda i: (pieces[i].kind == "history", pieces[i].id != "history", -i),
    )
    for i in newest_first:
        kind = pieces[i].kind
        used = queues.get(kind, {})
        for tier, index, cost in sorted(ladders[i].units):
            used[tier] = used.get(tier, 0.0) + cost
            order.append((tier, used[tier] / weight.get(kind, 1), cost, i, index))
    return sorted(order)


def _ladders(
    request: ContextRequest, pieces: Sequence[Piece], chunks: Mapping[str, Chunk]
) -> list[Ladder]:
    """Return the ladder of each piece."""
    focus, page = focus_on(request), request.source.all()
    # What is settled must be known; what is open, the choices themselves tell.
    lines = request.view.status(request.observation, page)
    settled = {without_line_breaks(line.text) for line in lines if line.is_settled}
    # Notes on other entries matter where entries compete; elsewhere they have a later tier.
    old = (0, 1 if any(chunk.role == "entry" for chunk in page) else 2)
    ladders = []
    for i, piece in enumerate(pieces):
        is_echo = piece.step and request.profile.experience.is_echoed(piece.step.action)
        is_last = len(pieces) - 1 - i < _LAST
        tiers = (-1, -1) if is_last else old
        if piece.kind == "instruction":
            ladder = instruction_ladder(piece)
        elif piece.id in chunks:
            ladder = chunk_ladder(chunks[piece.id], focus)
        elif piece.kind == "past":
            ladder = plain_ladder([lead(LEGEND)], -1)
        elif piece.kind != "history":
            by_line = [-1 if line in settled else 2 for line in piece.text.splitlines()]
            ladder = plain_ladder(piece.fragments, *by_line)
        elif piece.step is None:
            ladder = plain_ladder(piece.fragments, -1)
        elif is_echo:
            ladder = echo_ladder(piece, tiers[0])
        else:
            ladder = plain_ladder(piece.fragments, *tiers)
        ladders.append(ladder)
    return ladders


def _context_of(
    pieces: Sequence[Piece],
    ladders: Sequence[Ladder],
    chosen: Sequence[set[int]],
    chunks: Mapping[str, Chunk],
) -> BuiltContext:
    """Build the context in which each piece shows its ``chosen`` units."""
    visible: list[Piece] = []
    done = done_before(list(chunks.values()))
    for piece, ladder, indices in zip(pieces, ladders, chosen, strict=True):
        fragments = ladder.show(indices)
        if piece.id in chunks and piece.kind != "instruction":  # a world may call a chunk so, too
            chunk = chunks[piece.id]
            fragments = marked(fragments, done)
            if piece.kind not in FRAME:  # what is left of a line may begin as lines of the frame do
                fragments = list(shielded(fragments))
            visible.append(page_piece(chunk, render(chunk), fragments, None))
        else:
            text = text_of(fragments)
            size = count_tokens(text)
            visible.append(replace(piece, text=text, tokens_after=size, fragments=tuple(fragments)))
    return built(visible)
