"""What an answer was made from: passages with scores and sources, recent turns, facts."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from envs.protocols import Chunk
from nodes.protocols import BuiltContext, Piece
from ui.app.render.charts import bars
from ui.app.render.context import meter
from ui.app.render.html import brief, el, percent, short

_MEMORY = ("memory", "fact", "entity", "relation")


def render_sources(
    context: BuiltContext,
    budget: int,
    chunks: Sequence[Chunk],
    kind: str,
    seconds: tuple[float, float] | None = None,
) -> Markup:
    """Draw what the model read for its answer, part by part."""
    known = {chunk.id: chunk for chunk in chunks}
    passages = [piece for piece in context.pieces if piece.id in known or piece.kind == "passage"]
    parts: list[Any] = [
        el("div", "What the answer was made from", cls="sg-panel-title"),
        meter(context, budget),
    ]
    if seconds is not None:
        parts.append(el("div", f"answered in {brief(sum(seconds))}", cls="sg-muted"))
    parts += [
        _weights(passages, known, kind),
        _section("Retrieved passages", [_passage(p, known.get(p.id), passages) for p in passages],
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
    scored = [piece for piece in passages if piece.score is not None]
    if not scored:
        return None
    low = min(0.0, *(float(piece.score or 0.0) for piece in scored))
    top = max(float(piece.score or 0.0) for piece in scored) - low or 1.0
    rows = [
        (
            _name(piece, known.get(piece.id)),
            (float(piece.score or 0) - low) / top,
            f"{piece.score:.3f}",
        )
        for piece in sorted(scored, key=lambda piece: -(piece.score or 0.0))
    ]
    what = "RICO weights of the passages" if kind == "rico" else f"Scores of the passages ({kind})"
    return bars(rows, what)


def _name(piece: Piece, chunk: Chunk | None) -> str:
    data = chunk.data if chunk is not None else {}
    return str(data.get("title") or data.get("document") or piece.id)


def _passage(piece: Piece, chunk: Chunk | None, all_: Sequence[Piece]) -> Markup:
    scores = [p.score for p in all_ if p.score is not None]
    low, high = (min(scores), max(scores)) if scores else (0.0, 0.0)
    shade = 0.4
    if piece.score is not None and high > low:
        shade = 0.12 + 0.88 * (piece.score - low) / (high - low)
    source = str((chunk.data if chunk is not None else {}).get("document") or piece.id)
    text = piece.text or (chunk.text if chunk is not None else "")
    state = "kept" if piece.text else "dropped"
    return el(
        "div",
        el(
            "div",
            el("span", _name(piece, chunk), cls="sg-piece-name"),
            el("span", el("span", f"{piece.score:.2f}", cls="sg-score") if piece.score is not None
               else None, f"{piece.tokens_after}/{piece.tokens_before}",
               el("i", cls="sg-keep", style=f"--k:{percent(_share(piece))}"), cls="sg-piece-meta"),
            cls="sg-piece-head",
        ),
        el("div", short(_bare(text), 420), cls="sg-piece-text sg-quote"),
        el("div", f"source: {source}", cls="sg-muted"),
        cls=f"sg-piece sg-{state}", style=f"--s:{shade:.3f}", data_piece=piece.id,
    )  # fmt: skip


def _share(piece: Piece) -> float:
    return piece.tokens_after / piece.tokens_before if piece.tokens_before else 1.0


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
