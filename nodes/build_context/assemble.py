"""Assembly of a prompt from chosen chunks within the budget, with the audit trail.

All our builders make the same frame, so that they differ only in the chunks that they choose::

    Instruction: ...            first, so the model server's prompt cache holds it for the episode
    So far:                     in partially observed worlds: earlier steps and their outcomes
    1. go north => A wood.
    (the chosen chunks)         in page order; a choice made changes none of these lines
    Chosen: color = black       the marks of the page itself (the view's status)
    Actions so far:             the latest few, from short-term memory
    1. look[...]
     - red, wool                the words of the instruction on the page that the action led to
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from langchain_core.messages import HumanMessage
from pydantic import Field

from stategate.envs.protocols import NOTE, Chunk, Fragment, StatusLine
from stategate.nodes.protocols import (
    BuiltContext,
    ContextBuilder,
    ContextParams,
    ContextRequest,
    Piece,
)
from stategate.nodes.retrieval.page import BREAK, lead, render, text_of
from stategate.stores.text import one_line, without_line_breaks
from stategate.stores.tokens import count_tokens, truncate


class FramedContext(ContextParams):
    """Parameters that all of our page-reading builders share."""

    history: int = Field(default=20, ge=0, description="how many of the latest actions to list")


def assemble(
    request: ContextRequest,
    visible: Sequence[Chunk],
    scores: Mapping[str, float] | None = None,
    history: int = 20,
    events: Sequence[Piece] = (),
    page: Sequence[Chunk] | None = None,
) -> BuiltContext:
    """Return the context of the ``visible`` chunks in the frame, within ``request.budget`` tokens.

    The instruction gets its tokens first, then the tail (status, actions; at most a quarter of the
    budget), then the chunks in page order: the first that does not fit is cut, the others are dropped.
    ``events`` are further pieces for the tail, dropped from the front when too many; ``page`` is
    another order of the source's chunks.
    """
    scores = scores or {}
    page = request.source.all() if page is None else page
    pinned = {chunk.id for chunk in page if chunk.role == "pinned"}
    past = [chunk for chunk in page if chunk.role == "past"]
    history = 0 if past else history  # its lines hold the actions
    ids = {chunk.id for chunk in visible} | pinned
    instruction = instruction_piece(request)
    remaining = request.budget - instruction.tokens_after
    page_pieces, used = _page(page, ids, scores, remaining)
    chosen = [chunk for chunk in page if chunk.id in ids]
    tail = _tail(request, chosen, history, max(remaining // 4, remaining - used))
    remaining -= size_of(tail)
    if used > remaining:
        page_pieces, used = _page(page, ids, scores, remaining)
    extra = newest_within(events, remaining - used)
    spare = remaining - used - size_of(extra)
    lines = [(chunk, render(chunk)) for chunk in past]
    steps = [page_piece(c, line, line, scores.get(c.id)) for c, line in lines if c.id in ids]
    before = headed(line_piece("past", "past", "So far:\n", spare), steps, spare)
    visible_ids = {piece.id for piece in before}
    dropped = [page_piece(c, line, (), None) for c, line in lines if c.id not in visible_ids]
    return built((instruction, *before, *dropped, *page_pieces, *extra, *tail))


def instruction_piece(request: ContextRequest) -> Piece:
    """Return the line of the instruction, within the budget."""
    text = Fragment(one_line(request.instruction), role="instruction")
    line = (lead("Instruction: "), text, BREAK)
    return line_piece("instruction", "instruction", line, request.budget)


def built(pieces: Sequence[Piece]) -> BuiltContext:
    """Make a context of ``pieces``: one human message that is their texts, joined."""
    text = "".join(piece.text for piece in pieces)
    return BuiltContext((HumanMessage(text),), tuple(pieces), size_of(pieces))


def size_of(pieces: Sequence[Piece]) -> int:
    """Return the tokens of pieces."""
    return sum(piece.tokens_after for piece in pieces)


def with_pieces(
    inner: ContextBuilder, max_tokens: int, find: Callable[[ContextRequest, int], Sequence[Piece]]
) -> ContextBuilder:
    """Return a builder that adds a message of pieces to the context of ``inner``.

    ``find`` returns pieces of at most ``max_tokens`` or a quarter of the budget; ``inner`` gets the
    remaining budget.
    """

    def build_context(request: ContextRequest) -> BuiltContext:
        pieces = find(request, min(max_tokens, request.budget // 4))
        return inner(replace(request, budget=request.budget - size_of(pieces))).plus(pieces)

    return build_context


def newest_within(pieces: Sequence[Piece], budget: int) -> list[Piece]:
    """Return the last pieces that together have at most ``budget`` tokens; the others, emptied."""
    newest: list[Piece] = []
    open_ = True
    for piece in reversed(pieces):
        open_ = open_ and piece.tokens_after <= budget
        budget -= piece.tokens_after if open_ else 0
        newest.append(piece if open_ else piece.emptied())
    return newest[::-1]


def fit(fragments: Sequence[Fragment], budget: int) -> list[Fragment]:
    """Return the head of ``fragments`` that fits ``budget`` tokens, line break included.

    A plain fragment may be cut at a token, one with an affordance may not. A cut quantity or lesson
    loses its value.
    """
    whole = text_of(fragments)
    if count_tokens(whole) <= budget:
        return list(fragments)
    length = len(truncate(whole, budget - 1).rstrip())
    head: list[Fragment] = []
    for fragment in fragments:
        text = fragment.text[:length]
        if not text or (text != fragment.text and fragment.action is not None):
            break
        cut = replace(fragment, text=text)
        if text != fragment.text and cut.role in ("quantity", "lesson"):
            cut = replace(cut, amount=None, name="")
        head.append(cut)
        length -= len(text)
    return [*head, BREAK] if text_of(head).strip() else []


def _page(
    page: Sequence[Chunk], ids: set[str], scores: Mapping[str, float], room: int
) -> tuple[list[Piece], int]:
    """Cut the page's chunks to ``room`` tokens, top first; return pieces and tokens."""
    pieces: list[Piece] = []
    used = 0
    is_full = False
    for chunk in page:
        if chunk.role == "past":
            continue
        whole = render(chunk)
        visible = fit(whole, room - used) if chunk.id in ids and not is_full else []
        piece = page_piece(chunk, whole, visible, scores.get(chunk.id))
        is_full = is_full or (chunk.id in ids and piece.tokens_after < piece.tokens_before)
        used += piece.tokens_after
        if whole or chunk.actions:
            pieces.append(piece)
    return pieces, used


def page_piece(
    chunk: Chunk, whole: Sequence[Fragment], visible: Sequence[Fragment], score: float | None
) -> Piece:
    """Return the piece of ``chunk`` whose ``whole`` rendering is cut to the ``visible`` fragments."""
    text = text_of(visible)
    actions = tuple(dict.fromkeys(f.action for f in visible if f.action is not None))
    return Piece(
        id=chunk.id,
        kind=chunk.kind,
        text=text,
        actions=actions,
        tokens_before=count_tokens(text_of(whole)),
        tokens_after=count_tokens(text),
        score=score,
        dropped_actions=tuple(a for a in dict.fromkeys(chunk.actions) if a not in actions),
        role=chunk.role,
        choice=chunk.choice.name if chunk.choice is not None else "",
        is_visited=chunk.is_visited,
        fragments=tuple(visible),
    )


def _tail(
    request: ContextRequest, visible: Sequence[Chunk], history: int, budget: int
) -> list[Piece]:
    """Return the status and, under "Actions so far:", the latest actions that fit ``budget`` tokens."""
    status_lines = request.view.status(request.observation, visible)
    status = line_piece("status", "status", [f for line in status_lines for f in _status(line)])
    pieces: list[Piece] = []
    if status.text and status.tokens_after <= budget:
        pieces.append(status)
        budget -= status.tokens_after
    events = request.events
    acts = [event for event in events if event.kind == "ACT"][-history:] if history else []
    notes = {event.t - 1: one_line(event.text) for event in events if event.kind == "NOTE"}
    lines = []
    for e in acts:
        line = [lead(f"{e.t + 1}. "), Fragment(one_line(e.text), role="action"), BREAK]
        # A page that says what it said one step before needs no second note.
        if e.t in notes and notes[e.t] != notes.get(e.t - 1):
            line += [lead(NOTE), Fragment(notes[e.t], role="note"), BREAK]
        lines.append(line_piece(f"history:{e.t}", "history", line, 60))
    header = line_piece("history", "history", "Actions so far:\n", budget)
    return pieces + headed(header, lines, budget)


def _status(line: StatusLine) -> list[Fragment]:
    """Return a status line as a lead, and the value that it ends in, if it says one."""
    text, value = without_line_breaks(line.text), without_line_breaks(line.value)
    if not value or not text.endswith(value):
        return [Fragment(f"{text}\n", role="fact")]
    return [lead(text.removesuffix(value)), Fragment(value, role="value", name=line.name), BREAK]


def headed(header: Piece, lines: Sequence[Piece], budget: int) -> list[Piece]:
    """Return ``header`` and the newest ``lines`` that fit under it, [] where none does."""
    room = max(budget - header.tokens_after, 0)
    newest = [piece for piece in newest_within(lines, room) if piece.text]
    return [header, *newest] if newest else []


def line_piece(
    id_: str,
    kind: str,
    line: str | Sequence[Fragment],
    budget: int | None = None,
    score: float | None = None,
) -> Piece:
    """Make a piece of the frame, cut to ``budget`` tokens (None: whole); a plain text is a lead."""
    whole = (lead(line),) if isinstance(line, str) else tuple(line)
    visible = whole if budget is None else tuple(fit(whole, budget))
    before, text = count_tokens(text_of(whole)), text_of(visible)
    return Piece(id_, kind, text, (), before, count_tokens(text), score, fragments=visible)
