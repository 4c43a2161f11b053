"""What an answer was made from: passages with scores and sources, recent turns, facts."""

from collections.abc import Sequence

from markupsafe import Markup

from envs.protocols import Chunk
from nodes.protocols import BuiltContext, Piece
from ui.app.render.context import Shown, shading
from ui.app.render.html import macros

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
    about = {piece.id: known[piece.id].data if piece.id in known else {} for piece in passages}
    names = {id_: str(d.get("title") or d.get("document") or id_) for id_, d in about.items()}
    drawn = []
    for piece, shade in zip(passages, shading(passages), strict=True):
        text = piece.text or (known[piece.id].text if piece.id in known else "")
        lines = text.splitlines()
        own = [line for line in lines if not line.startswith(("<document", "</document"))]
        source = str(about[piece.id].get("document") or piece.id)
        drawn.append((Shown(piece, shade), names[piece.id], source, "\n".join(own)))
    pieces = context.pieces
    remembered = [p for p in pieces if p.kind in _MEMORY and p.id != "memory"]
    history = [p for p in pieces if p.kind == "history" and p.id != "history"]
    weights = _weights(passages, names, kind)
    return macros("context").sources(context, budget, seconds, weights, drawn, remembered, history)


def _weights(
    passages: Sequence[Piece], names: dict[str, str], kind: str
) -> tuple[str, list[tuple[str, float, str]]] | None:
    """Return a caption, and the passages' names, shares and scores, best first."""
    scores = {piece.id: piece.score for piece in passages if piece.score is not None}
    if not scores:
        return None
    low = min(0.0, *scores.values())
    top = max(scores.values()) - low or 1.0
    best = sorted(scores.items(), key=lambda item: -item[1])
    what = "RICO weights of the passages" if kind == "rico" else f"Scores of the passages ({kind})"
    return what, [(names[id_], (score - low) / top, f"{score:.3f}") for id_, score in best]
