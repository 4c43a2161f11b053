"""What the model reads: each chunk shaded by its score, with its tokens; what it lost, in red."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from envs.protocols import Chunk, View
from nodes.protocols import BuiltContext, Piece
from nodes.retrieval.page import describe
from ui.actions import label
from ui.app.render.actions import action_chip
from ui.app.render.html import el, percent, plural, short

#: Pieces that are no part of a page.
_SCAFFOLD = ("instruction", "status", "history")


def render_context(
    context: BuiltContext, budget: int, whole: Mapping[str, str] | None = None, *, title: str = ""
) -> Markup:
    """Draw a built context: the budget meter, then its pieces in prompt order, then what is lost.

    ``whole`` holds the page's chunks in words by id, to say what a dropped piece was.
    """
    pieces = fold_history(context.pieces)
    shades = shading(pieces)
    boxes = [render_piece(piece, shades[i], whole) for i, piece in enumerate(pieces)]
    return el(
        "div",
        el("div", title, cls="sg-panel-title") if title else None,
        meter(context, budget),
        lost_line(context),
        el("div", boxes, cls="sg-pieces"),
        legend(context),
        cls="sg-context",
    )


def in_words(view: View, chunks: Sequence[Chunk]) -> dict[str, str]:
    """Return each chunk in words, by its id."""
    return {chunk.id: describe(view, chunk) for chunk in chunks}


def shading(pieces: Sequence[Piece]) -> list[float]:
    """Return how dark each piece is drawn, 0 to 1: by score, or by the share of it that is kept."""
    scores = [p.score for p in pieces if p.score is not None and p.kind not in _SCAFFOLD]
    low, high = (min(scores), max(scores)) if scores else (0.0, 0.0)
    shades = []
    for piece in pieces:
        if piece.kind in _SCAFFOLD:
            shades.append(0.12)
        elif piece.score is not None and high > low:
            shades.append(0.12 + 0.88 * (piece.score - low) / (high - low))
        elif scores:
            shades.append(0.12 if piece.text else 0.0)
        else:
            shades.append(0.6 * kept_share(piece))
    return shades


def fold_history(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with the lines of the actions so far as one."""
    folded: list[Piece] = []
    for piece in pieces:
        if piece.kind == "history" and folded and folded[-1].kind == "history":
            last = folded[-1]
            folded[-1] = replace(
                last,
                text=last.text + piece.text,
                tokens_before=size(last) + size(piece),
                tokens_after=last.tokens_after + piece.tokens_after,
            )
        else:
            folded.append(piece)
    return folded


def size(piece: Piece) -> int:
    """Return the tokens of the piece when whole (a builder may frame a chunk that is none itself)."""
    return max(piece.tokens_before, piece.tokens_after)


def kept_share(piece: Piece) -> float:
    """Return the share of the piece's tokens that stand in the prompt."""
    whole = size(piece)
    return piece.tokens_after / whole if whole else float(bool(piece.text))


def render_piece(piece: Piece, shade: float, whole: Mapping[str, str] | None = None) -> Markup:
    """Draw one piece: its name, score, tokens kept of tokens available, and its text."""
    is_dropped = not piece.text.strip()
    text = el("div", piece.text.rstrip("\n"), cls="sg-piece-text") if not is_dropped else None
    gone = None
    if is_dropped and whole and piece.id in whole:
        gone = el("div", short(whole[piece.id], 110), cls="sg-piece-gone")
    lost = [
        el("span", label(action), cls="sg-lost", title=f"{action} was dropped")
        for action in piece.dropped_actions[:12]
    ]
    if len(piece.dropped_actions) > 12:
        lost.append(el("span", f"+{len(piece.dropped_actions) - 12}", cls="sg-lost"))
    row = el("div", lost, cls="sg-row") if lost else None
    return piece_box(piece, shade, piece_name(piece), [text, gone, row])


def piece_box(piece: Piece, shade: float, name: str, inside: Sequence[Markup | None]) -> Markup:
    """Draw a piece's frame: name, score, tokens kept of tokens available; and what is ``inside``."""
    state = "cut" if piece.tokens_after < piece.tokens_before else "kept"
    is_scored = piece.score is not None and piece.kind not in _SCAFFOLD
    score = el("span", f"{piece.score:.2f}", cls="sg-score", title="score") if is_scored else None
    count = el(
        "span",
        el("b", str(piece.tokens_after)), f"/{size(piece)}",
        cls="sg-count", title=f"{piece.tokens_after} of {size(piece)} tokens kept",
    )  # fmt: skip
    bar = el("i", cls="sg-keep", style=f"--k:{percent(kept_share(piece))}")
    head = el(
        "div",
        el("span", name, cls="sg-piece-name"),
        el("span", score, count, bar, cls="sg-piece-meta"),
        cls="sg-piece-head",
    )
    return el(
        "div", head, list(inside), cls=f"sg-piece sg-{state if piece.text.strip() else 'dropped'}",
        style=f"--s:{shade:.3f}", data_piece=piece.id,
    )  # fmt: skip


def piece_name(piece: Piece) -> str:
    """Return what a piece is called: its kind, and what tells it from others of its kind."""
    kind, _, own = piece.id.partition(":")
    own = own.lower() if own else ""
    return f"{piece.kind} {own}".strip() if kind == piece.kind else piece.id


def meter(context: BuiltContext, budget: int) -> Markup:
    """Draw tokens used of the budget, beside the size of the whole."""
    before = sum(size(piece) for piece in context.pieces)
    scale = max(budget, before, context.tokens, 1)
    over = " sg-over" if context.over_budget or context.tokens > budget else ""
    caption = f"{context.tokens:,} of {plural(before, 'token')} kept, budget {budget:,}"
    return el(
        "div",
        el(
            "div",
            el("span", el("b", f"{context.tokens:,}"), f" of {before:,} tokens"),
            el("span", "over the budget" if over else f"budget {budget:,}", cls="sg-muted"),
            cls="sg-meter-head",
        ),
        el(
            "div",
            el("i", cls="sg-meter-page", style=f"width:{percent(before / scale)}"),
            el("i", cls="sg-meter-used", style=f"width:{percent(context.tokens / scale)}"),
            el("i", cls="sg-meter-budget", style=f"left:{percent(budget / scale)}"),
            cls="sg-meter", role="img", aria_label=caption, title=caption,
        ),
        cls="sg-meter-box" + over,
    )  # fmt: skip


def lost_line(context: BuiltContext) -> Markup:
    """Say which affordances the model cannot see, in red, or that it sees them all."""
    gone = context.dropped_actions
    total = len(gone) + len(context.actions)
    if not gone:
        return el("div", f"all {total} affordances readable" if total else "", cls="sg-allkept")
    chips = [action_chip(action, lost=True) for action in gone[:14]]
    more = el("span", f"and {len(gone) - 14} more", cls="sg-muted") if len(gone) > 14 else None
    head = el("b", f"{len(gone)} of {plural(total, 'affordance')} dropped")
    return el("div", head, chips, more, cls="sg-lostline", role="status")


def legend(context: BuiltContext) -> Markup:
    """Say what the shading means here."""
    scored = any(p.score is not None and p.kind not in _SCAFFOLD for p in context.pieces)
    what = (
        "the builder's score"
        if scored
        else "the share of it that is kept (this kind has no scores)"
    )
    return el(
        "div",
        el("i", cls="sg-ramp"), f"darker: {what} · n/m: tokens kept of tokens available",
        cls="sg-legend",
    )  # fmt: skip
