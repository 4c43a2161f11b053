"""What an answer was made from: passages with scores and sources, recent turns, facts."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from envs.protocols import Chunk
from nodes.protocols import BuiltContext, Piece
from ui.app.render.charts import bars
from ui.app.render.context import meter, piece_box, shading
from ui.app.render.html import brief, el, short

_MEMORY = ("memory", "fact", "entity", "relation")


def render_sources(
    context: BuiltContext,
    budget: int,
    chunks: Sequence[Chunk],
    kind: str,
    seconds: float | None = None,
) -> Markup:
    """Draw what the model read for its answer, part by part."""
    known = {chunk.id: chunk for chunk in chunks}
    passages = [piece for piece in context.pieces if piece.id in known or piece.kind == "passage"]
    parts: list[Any] = [
        el("div", "What the answer was made from", cls="sg-panel-title"),
        meter(context, budget),
    ]
    if seconds is not None:
        parts.append(el("div", f"answered in {brief(seconds)}", cls="sg-muted"))
    parts += [
        _weights(passages, known, kind),
        _section("Retrieved passages", [_passage(p, known.get(p.id), shade)
                 for p, shade in zip(passages, shading(passages), strict=True)],
                 "No passage was read."),
        _section("Long-term memory used", [_line(p) for p in context.pieces if p.kind in _MEMORY
                 and p.id != "memory"], "Nothing remembered fits this question."),
        _section("Short-term window", [_line(p) for p in context.pieces if p.kind == "history"
                 and p.id != "history"], "This is the first turn."),
    ]  # fmt: skip
    prompt = el(
        "details", el("summary", "the prompt as text"), el("pre", context.text), cls="sg-prompt"
    )
    return el("div", parts, prompt, cls="sg-context")


def _weights(passages: Sequence[Piece], known: dict[str, Chunk], kind: str) -> Markup | None:
    scores = {piece.id: piece.score for piece in passages if piece.score is not None}
    if not scores:
        return None
    low = min(0.0, *scores.values())
    top = max(scores.values()) - low or 1.0
    best = sorted((p for p in passages if p.id in scores), key=lambda piece: -scores[piece.id])
    rows = [
        (_name(p, known.get(p.id)), (scores[p.id] - low) / top, f"{scores[p.id]:.3f}") for p in best
    ]
    what = "RICO weights of the passages" if kind == "rico" else f"Scores of the passages ({kind})"
    return bars(rows, what)


def _name(piece: Piece, chunk: Chunk | None) -> str:
    data = chunk.data if chunk is not None else {}
    return str(data.get("title") or data.get("document") or piece.id)


def _passage(piece: Piece, chunk: Chunk | None, shade: float) -> Markup:
    source = str((chunk.data if chunk is not None else {}).get("document") or piece.id)
    text = piece.text or (chunk.text if chunk is not None else "")
    quote = el("div", short(_bare(text), 420), cls="sg-piece-text sg-quote")
    source_line = el("div", f"source: {source}", cls="sg-muted")
    return piece_box(piece, shade, _name(piece, chunk), [quote, source_line])


def _bare(text: str) -> str:
    """Return a quoted document's own words."""
    lines = [line for line in text.splitlines() if not line.startswith(("<document", "</document"))]
    return "\n".join(lines)


def _line(piece: Piece) -> Markup:
    score = el("span", f"{piece.score:.2f}", cls="sg-score") if piece.score is not None else None
    return el("div", score, el("span", piece.text.strip()), cls="sg-memory-line")


def _section(title: str, lines: Sequence[Markup], otherwise: str) -> Markup:
    inside = el("div", lines, cls="sg-pieces") if lines else el("div", otherwise, cls="sg-muted")
    return el("section", el("div", title, cls="sg-panel-title"), inside, cls="sg-section")
