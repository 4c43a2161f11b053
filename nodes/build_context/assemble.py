"""From chosen chunks to a prompt within the budget, with the audit trail.

Every builder of ours makes the same frame, so that builders differ in nothing but their choice::

    Instruction: ...            leads, so the model server's prompt cache holds it for the episode
    So far:                     where pages do not tell: earlier steps, with what came of them
    1. go north => A wood.
    (the chosen chunks)         in page order; a choice made changes none of these lines
    Chosen: color = black       what the page itself marks (the view's status)
    Actions so far:             the latest few, from short-term memory
    1. look[...]
     - red, wool                what of the instruction the page met that this led to
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from langchain_core.messages import HumanMessage
from pydantic import Field

from stategate.envs.protocols import NOTE, Chunk, Fragment, View
from stategate.nodes.protocols import BuiltContext, ContextParams, ContextRequest, Piece
from stategate.nodes.retrieval.page import render, text_of
from stategate.stores.text import one_line, without_line_breaks
from stategate.stores.tokens import count_tokens, truncate
from stategate.stores.traces import Event


class FramedContext(ContextParams):
    """Parameters that all of our page-reading builders share."""

    history: int = Field(default=20, ge=0, description="how many of the latest actions to list")
    past: Literal["world", "events", "actions"] = Field(
        default="world",
        description="of earlier steps: events, to choose among with what came of them; actions, the "
        "latest by name; world: events where its pages do not tell what was seen before",
    )


def assemble(
    request: ContextRequest,
    shown: Sequence[Chunk],
    scores: Mapping[str, float] | None = None,
    history: int = 20,
    events: Sequence[Piece] = (),
    page: Sequence[Chunk] | None = None,
) -> BuiltContext:
    """Build the frame around ``shown`` within ``request.budget`` tokens.

    Room is given to the instruction, then to the tail (status, actions; at most a quarter
    of the budget), then to the chunks in page order: the first that does not fit is cut, the rest
    are dropped. ``events`` are further pieces for the tail, dropped from the front when too many;
    ``page`` is another order of the source's chunks.
    """
    scores = scores or {}
    page = request.source.all() if page is None else page
    pinned = {chunk.id for chunk in page if chunk.role == "pinned"}
    past = [chunk for chunk in page if chunk.role == "past"]
    history = 0 if past else history  # its lines hold the actions
    ids = {chunk.id for chunk in shown} | pinned
    lead = f"Instruction: {one_line(request.instruction)}\n"
    instruction = line_piece("instruction", "instruction", lead, request.budget)
    left = request.budget - instruction.tokens_after
    page_pieces, used = _page(request, page, ids, scores, left)
    chosen = [chunk for chunk in page if chunk.id in ids]
    tail = _tail(request, chosen, history, max(left // 4, left - used))
    tail_tokens = sum(piece.tokens_after for piece in tail)
    if used + tail_tokens > left:
        page_pieces, used = _page(request, page, ids, scores, left - tail_tokens)
    spare = left - used - tail_tokens
    extra = newest_within(events, spare)
    spare -= sum(piece.tokens_after for piece in extra)
    before = past_pieces(request.view, [c for c in past if c.id in ids], scores, spare)
    dropped = [page_piece(c, render(request.view, c), (), None) for c in past if c.id not in ids]
    return built((instruction, *before, *dropped, *page_pieces, *extra, *tail))


def past_pieces(
    view: View, past: Sequence[Chunk], scores: Mapping[str, float], budget: int
) -> list[Piece]:
    """Return "So far:" and the lines of earlier steps, the latest that fit ``budget`` tokens."""
    if not past:
        return []
    header = line_piece("past", "past", "So far:\n", budget)
    lines = [page_piece(c, w, w, scores.get(c.id)) for c in past for w in (render(view, c),)]
    newest = newest_within(lines, budget - header.tokens_after)
    return [header, *newest] if any(piece.text for piece in newest) else newest


def built(pieces: Sequence[Piece], over_budget: bool = False) -> BuiltContext:
    """Make a context of ``pieces``: one human message that is their texts, joined."""
    text = "".join(piece.text for piece in pieces)
    tokens = sum(piece.tokens_after for piece in pieces)
    return BuiltContext((HumanMessage(text),), tuple(pieces), tokens, over_budget)


def newest_within(pieces: Sequence[Piece], budget: int) -> list[Piece]:
    """Return the last pieces that together have at most ``budget`` tokens; the others, emptied."""
    newest: list[Piece] = []
    open_ = True
    for piece in reversed(pieces):
        open_ = open_ and piece.tokens_after <= budget
        budget -= piece.tokens_after if open_ else 0
        gone = replace(piece, text="", actions=(), tokens_after=0, dropped_actions=())
        newest.append(piece if open_ else gone)
    return newest[::-1]


def fit(fragments: Sequence[Fragment], budget: int) -> list[Fragment]:
    """Return the head of ``fragments`` that fits ``budget`` tokens, line break included.

    Whole fragments first; a plain one may be cut at a token, one with an affordance may not.
    """
    if count_tokens(text_of(fragments)) <= budget:
        return list(fragments)
    head: list[Fragment] = []
    for fragment in _stretches(fragments):
        if count_tokens(text_of([*head, fragment, Fragment("\n")])) <= budget:
            head.append(fragment)
            continue
        room = budget - count_tokens(text_of(head)) - 1
        if fragment.action is None and (cut := truncate(fragment.text, room).rstrip()):
            head.append(Fragment(cut))
        break
    if not any(fragment.text.strip() for fragment in head):
        return []
    while head and count_tokens(text_of([*head, Fragment("\n")])) > budget:
        head.pop()
    return [*head, Fragment("\n")] if head else []


def _stretches(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Join plain fragments that follow each other, so that a cut may fall anywhere in them."""
    joined: list[Fragment] = []
    for fragment in fragments:
        last = joined[-1] if joined else None
        is_plain = fragment.action is None and fragment.text != "\n"
        if is_plain and last is not None and last.action is None:
            joined[-1] = Fragment(last.text + fragment.text)
        else:
            joined.append(fragment)
    return joined


def _page(
    request: ContextRequest,
    page: Sequence[Chunk],
    ids: set[str],
    scores: Mapping[str, float],
    room: int,
) -> tuple[list[Piece], int]:
    """Cut the page's chunks to ``room`` tokens, top first; return pieces and tokens."""
    pieces: list[Piece] = []
    used = 0
    is_full = False
    for chunk in page:
        if chunk.role == "past":
            continue
        whole = render(request.view, chunk)
        shown = fit(whole, room - used) if chunk.id in ids and not is_full else []
        piece = page_piece(chunk, whole, shown, scores.get(chunk.id))
        is_full = is_full or (chunk.id in ids and piece.tokens_after < piece.tokens_before)
        used += piece.tokens_after
        if whole or chunk.actions:
            pieces.append(piece)
    return pieces, used


def page_piece(
    chunk: Chunk, whole: Sequence[Fragment], shown: Sequence[Fragment], score: float | None
) -> Piece:
    """Say what became of ``chunk`` when ``shown`` of its ``whole`` rendering is shown."""
    text = text_of(shown)
    actions = tuple(dict.fromkeys(f.action for f in shown if f.action is not None))
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
    )


def _tail(
    request: ContextRequest, shown: Sequence[Chunk], history: int, budget: int
) -> list[Piece]:
    lines = request.view.status(request.observation, shown)
    text = "".join(f"{without_line_breaks(line.text)}\n" for line in lines)
    pieces: list[Piece] = []
    if text and count_tokens(text) <= budget:
        pieces.append(line_piece("status", "status", text, budget))
        budget -= pieces[-1].tokens_after
    return pieces + history_pieces(request.events, history, budget)


def history_pieces(events: Sequence[Event], count: int, budget: int) -> list[Piece]:
    """Return "Actions so far:" and its numbered lines, the latest that fit ``budget`` tokens."""
    acts = [event for event in events if event.kind == "ACT"][-count:] if count else []
    header = line_piece("history", "history", "Actions so far:\n", budget)
    notes = {event.t - 1: one_line(event.text) for event in events if event.kind == "NOTE"}
    lines = []
    for e in acts:
        line = f"{e.t + 1}. {one_line(e.text)}\n"
        # A page that says what it said one step before needs no second note.
        if e.t in notes and notes[e.t] != notes.get(e.t - 1):
            line += f"{NOTE}{notes[e.t]}\n"
        lines.append(line_piece(f"history:{e.t}", "history", line, 60))
    return headed(header, lines, budget)


def headed(header: Piece, lines: Sequence[Piece], budget: int) -> list[Piece]:
    """Return ``header`` and the newest ``lines`` that fit under it, [] where none does."""
    room = max(budget - header.tokens_after, 0)
    newest = [piece for piece in newest_within(lines, room) if piece.text]
    return [header, *newest] if newest else []


def line_piece(
    id_: str, kind: str, line: str, budget: int | None = None, score: float | None = None
) -> Piece:
    """Make a piece of one prompt line, cut to ``budget`` tokens (None: whole)."""
    text = line if budget is None else cut_line(line, budget)
    return Piece(id_, kind, text, (), count_tokens(line), count_tokens(text), score)


def cut_line(line: str, budget: int) -> str:
    """Return ``line`` cut to ``budget`` tokens but still ending in a break ("" if nothing fits)."""
    if count_tokens(line) <= budget:
        return line
    cut = truncate(line, max(budget - 1, 0)).rstrip()
    return f"{cut}\n" if cut and count_tokens(f"{cut}\n") <= budget else ""
