"""What the model reads: each chunk shaded by its score, with its tokens; what it lost, in red."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from envs.protocols import Chunk, View
from nodes.protocols import BuiltContext, Piece
from nodes.retrieval.page import describe
from ui.app.render.html import macros, whole_size

#: Pieces that are no part of a page.
_SCAFFOLD = ("instruction", "status", "history")


@dataclass(frozen=True)
class Shown:
    """A piece as it is drawn: how dark (0 to 1), and in words what is ``gone`` where it was dropped."""

    piece: Piece
    shade: float
    gone: str | None = None

    @property
    def name(self) -> str:
        """What the piece is called: its kind, and what tells it from others of its kind."""
        kind, _, own = self.piece.id.partition(":")
        return f"{kind} {own.lower()}".strip() if kind == self.piece.kind else self.piece.id

    @property
    def is_scored(self) -> bool:
        """Whether a builder ranked it."""
        return self.piece.score is not None and self.piece.kind not in _SCAFFOLD

    @property
    def whole(self) -> int:
        """The tokens of the piece when whole."""
        return whole_size(self.piece)

    @property
    def kept(self) -> float:
        """The share of the piece's tokens that stand in the prompt."""
        return self.piece.tokens_after / self.whole if self.whole else float(bool(self.piece.text))


def render_context(
    context: BuiltContext, budget: int, whole: Mapping[str, str] | None = None, *, title: str = ""
) -> Markup:
    """Draw a built context: the budget meter, then its pieces in prompt order, then what is lost.

    ``whole`` holds the page's chunks in words by id, to say what a dropped piece was.
    """
    return macros("context").context(title, context, budget, shown_pieces(context, whole))


def in_words(view: View, chunks: Sequence[Chunk]) -> dict[str, str]:
    """Return each chunk in words, by its id."""
    return {chunk.id: describe(view, chunk) for chunk in chunks}


def shown_pieces(context: BuiltContext, whole: Mapping[str, str] | None = None) -> list[Shown]:
    """Return the pieces as they are drawn, the lines of the actions so far as one."""
    pieces, gone = fold_history(context.pieces), whole or {}
    return [
        Shown(piece, shade, gone.get(piece.id))
        for piece, shade in zip(pieces, shading(pieces), strict=True)
    ]


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
            shades.append(0.6 * Shown(piece, 0.0).kept)
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
                tokens_before=whole_size(last) + whole_size(piece),
                tokens_after=last.tokens_after + piece.tokens_after,
            )
        else:
            folded.append(piece)
    return folded
