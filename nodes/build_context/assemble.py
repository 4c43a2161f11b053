"""From chosen chunks to a prompt within the budget, with the audit trail.

Every builder of ours makes the same frame, so that builders differ in nothing but their choice::

    Instruction: ...            leads, so the model server's prompt cache holds it for the episode
    (the chosen chunks)         in page order; clicking an option changes none of these lines
    Chosen: color = black       only where the page itself marks what is chosen
    Not chosen yet: size
    Actions so far:             the latest few, from short-term memory
    1. search[...]
"""

from collections.abc import Mapping, Sequence

from langchain_core.messages import HumanMessage
from pydantic import Field

from nodes.build_context.render import Fragment, fit, one_line, render, text_of
from nodes.protocols import BuiltContext, Chunk, ContextParams, ContextRequest, Piece
from stores.tokens import count_tokens, truncate
from stores.traces import Event


class FramedContext(ContextParams):
    """Parameters that all of our page-reading builders share."""

    history: int = Field(default=10, ge=0, description="how many of the latest actions to list")


def assemble(
    request: ContextRequest,
    shown: Sequence[Chunk],
    scores: Mapping[str, float] | None = None,
    history: int = 10,
    events: Sequence[Piece] = (),
) -> BuiltContext:
    """Build the frame around ``shown`` within ``request.budget`` tokens.

    Room is given to the instruction, then to the tail (chosen options, actions; at most a quarter
    of the budget), then to the chunks in page order: the first that does not fit is cut, the rest
    are dropped. ``events`` are further pieces for the tail, dropped from the front when too many.
    """
    scores = scores or {}
    # An open question can always be answered, whatever a builder chose to show of the corpus.
    asked = {chunk.id for chunk in request.source.all() if chunk.kind == "ask"}
    ids = {chunk.id for chunk in shown} | asked
    lead = f"Instruction: {one_line(request.instruction)}\n"
    instruction = _line_piece("instruction", "instruction", lead, request.budget)
    left = request.budget - instruction.tokens_after
    page_pieces, used = _page(request.source.all(), ids, scores, left, reserve=0)
    tail = _tail(request, ids, history, max(left // 4, left - used))
    tail_tokens = sum(piece.tokens_after for piece in tail)
    if used + tail_tokens > left:
        page_pieces, used = _page(request.source.all(), ids, scores, left, reserve=tail_tokens)
    spare = left - used - tail_tokens
    extra = newest_within(events, spare)
    pieces = (instruction, *page_pieces, *extra, *tail)
    return built(pieces)


def built(pieces: Sequence[Piece], over_budget: bool = False) -> BuiltContext:
    """Make a context of ``pieces``: one human message that is their texts, joined."""
    text = "".join(piece.text for piece in pieces)
    tokens = sum(piece.tokens_after for piece in pieces)
    return BuiltContext((HumanMessage(text),), tuple(pieces), tokens, over_budget)


def newest_within(pieces: Sequence[Piece], budget: int) -> list[Piece]:
    """Return the last pieces that together have at most ``budget`` tokens; the others, emptied."""
    kept: list[Piece] = []
    open_ = True
    for piece in reversed(pieces):
        open_ = open_ and piece.tokens_after <= budget
        budget -= piece.tokens_after if open_ else 0
        kept.append(piece if open_ else _emptied(piece))
    return kept[::-1]


def _page(
    chunks: Sequence[Chunk], ids: set[str], scores: Mapping[str, float], left: int, reserve: int
) -> tuple[list[Piece], int]:
    """Cut the page's chunks to ``left - reserve`` tokens, top first; return pieces and tokens."""
    room = left - reserve
    pieces: list[Piece] = []
    used = 0
    is_full = False
    for chunk in chunks:
        whole = render(chunk)
        kept = fit(whole, room - used) if chunk.id in ids and not is_full else []
        piece = page_piece(chunk, whole, kept, scores.get(chunk.id))
        is_full = is_full or (chunk.id in ids and piece.tokens_after < piece.tokens_before)
        used += piece.tokens_after
        if whole or chunk.actions:
            pieces.append(piece)
    return pieces, used


def page_piece(
    chunk: Chunk, whole: Sequence[Fragment], kept: Sequence[Fragment], score: float | None
) -> Piece:
    """Say what became of ``chunk`` when ``kept`` of its ``whole`` rendering is shown."""
    text = text_of(kept)
    actions = tuple(dict.fromkeys(f.action for f in kept if f.action is not None))
    return Piece(
        id=chunk.id,
        kind=chunk.kind,
        text=text,
        actions=actions,
        tokens_before=count_tokens(text_of(whole)),
        tokens_after=count_tokens(text),
        score=score,
        dropped_actions=tuple(a for a in dict.fromkeys(chunk.actions) if a not in actions),
    )


def _tail(request: ContextRequest, ids: set[str], history: int, budget: int) -> list[Piece]:
    groups = [c for c in request.source.all() if c.kind == "options" and c.id in ids]
    marked = any(chunk.kind == "notice" for chunk in request.source.all())
    pieces: list[Piece] = []
    chosen = [c for c in groups if c.data.get("chosen")]
    lines = [f"Chosen: {one_line(c.data['name'])} = {c.data['chosen'].lower()}\n" for c in chosen]
    waiting = [one_line(c.data["name"]) for c in groups if not c.data.get("chosen")]
    if waiting and (marked or _is_marked(request)):
        lines.append(f"Not chosen yet: {', '.join(waiting)}\n")
    text = "".join(lines)
    if text and count_tokens(text) <= budget:
        pieces.append(_line_piece("chosen", "chosen", text, budget))
        budget -= pieces[-1].tokens_after
    return pieces + history_pieces(request.events, history, budget)


def _is_marked(request: ContextRequest) -> bool:
    """Say whether this kind of page marks choices at all (WebShop's `rich` mode does)."""
    return "[button]" in request.observation.text


def history_pieces(events: Sequence[Event], count: int, budget: int) -> list[Piece]:
    """Return "Actions so far:" and its numbered lines, the latest that fit ``budget`` tokens."""
    acts = [event for event in events if event.kind == "ACT"][-count:] if count else []
    header = _line_piece("history", "history", "Actions so far:\n", budget)
    lines = [
        _line_piece(f"history:{e.t}", "history", f"{e.t + 1}. {one_line(e.text)}\n", 60)
        for e in acts
    ]
    kept = [p for p in newest_within(lines, budget - header.tokens_after) if p.text]
    return [header, *kept] if kept else []


def _line_piece(id_: str, kind: str, line: str, budget: int) -> Piece:
    """Make a piece of one prompt line, cut to ``budget`` tokens but still ending in a break."""
    before = count_tokens(line)
    text = line
    if before > budget:
        cut = truncate(line, max(budget - 1, 0)).rstrip()
        text = cut + "\n" if cut and count_tokens(cut + "\n") <= budget else ""
    return Piece(id_, kind, text, (), before, count_tokens(text))


def _emptied(piece: Piece) -> Piece:
    return Piece(piece.id, piece.kind, "", (), piece.tokens_before, 0, piece.score)
