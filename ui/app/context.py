"""What the model reads: one context, and several side by side.

Each chunk is shaded by its score, with its tokens; what is lost is red.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from markupsafe import Markup

from stategate.envs.protocols import Chunk
from stategate.nodes.protocols import BuiltContext, Piece
from stategate.nodes.retrieval.page import describe
from stategate.ui.app.html import render, short, whole_size
from stategate.ui.app.workspace import Lane

#: Pieces that are no part of a page.
_SCAFFOLD = ("instruction", "status", "history")
#: Texts up to this length are compared word by word with what was shown of them.
_COMPARED = 20_000
#: What kinds of pieces are called, where another word says more.
_NAMES = {
    "event": "earlier step",
    "here": "commands here",
    "note": "note",
    "past": "earlier steps",
    "said": "answer, sentence",
    "self": "other commands",
}
_WORD = re.compile(r"\s+|\S+")


@dataclass(frozen=True)
class Shown:
    """A piece as it is drawn: how dark (0 to 1), and in words what it was when whole."""

    piece: Piece
    shade: float
    gone: str | None = None

    @property
    def stretches(self) -> list[tuple[str, bool]]:
        """The text in stretches, each with whether it was cut out of what the model reads."""
        text = self.piece.text.rstrip("\n")
        is_cut = self.piece.tokens_after < self.piece.tokens_before
        if not is_cut or not self.gone or not text.strip() or len(self.gone) > _COMPARED:
            return [(text, False)]
        return cuts(self.gone, text)

    @property
    def name(self) -> str:
        """What the piece is called: its kind, and what tells it from others of its kind."""
        kind, _, own = self.piece.id.partition(":")
        if kind in _NAMES:  # what is counted there is counted from 0
            return f"{_NAMES[kind]} {int(own) + 1 if own.isdigit() else own}".strip()
        return f"{kind} {own.lower()}".strip() if kind == self.piece.kind else self.piece.id

    @property
    def is_scored(self) -> bool:
        """Whether a builder ranked it."""
        return self.piece.score is not None and self.piece.kind not in _SCAFFOLD

    @property
    def kept_share(self) -> float:
        """The share of the piece's tokens that stand in the prompt."""
        whole = whole_size(self.piece)
        return self.piece.tokens_after / whole if whole else float(bool(self.piece.text))


def cuts(whole: str, visible: str) -> list[tuple[str, bool]]:
    """Return ``whole`` in stretches, True where ``visible`` lacks them; what it adds stays."""
    before, after = _WORD.findall(whole), _WORD.findall(visible)
    stretches: list[tuple[str, bool]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for _, low, high, start, end in matcher.get_opcodes():
        is_same = before[low:high] == after[start:end]
        gone = "" if is_same else "".join(before[low:high])
        if gone.strip():
            ends = (" " * gone[:1].isspace(), " " * gone[-1:].isspace())
            stretches.append((short(gone, 160).join(ends), True))
        if start < end:
            stretches.append(("".join(after[start:end]), False))
    return stretches


def in_words(chunks: Sequence[Chunk]) -> dict[str, str]:
    """Return each chunk in words, by its id."""
    return {chunk.id: describe(chunk) for chunk in chunks}


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
        if piece.kind not in _SCAFFOLD and piece.score is not None and high > low:
            shades.append(0.12 + 0.88 * (piece.score - low) / (high - low))
        else:
            shades.append((0.12 if scores else 0.6) * Shown(piece, 0.0).kept_share)
    return shades


def fold_history(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with the lines of the actions so far as one; a line that was cut says so."""
    folded: list[Piece] = []
    for piece in pieces:
        is_cut = piece.text.strip() and piece.tokens_after < piece.tokens_before
        if piece.kind == "history" and is_cut:
            piece = replace(piece, text=f"{piece.text.rstrip()}…\n")
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


def render_lanes(
    lanes: Sequence[Lane],
    whole: Mapping[str, str],
    names: Mapping[str, str],
    about: tuple[str, str, str],
) -> Markup:
    """Draw lanes side by side on one grid, so that what each kept of a chunk stands in one row.

    ``whole`` holds in words by id the page's chunks, in its order, and earlier steps, ``names`` titles
    by action, ``about`` says which moment of which task it is, and who plays. Where the page is narrow
    the lanes follow one another.
    """
    lane_pieces = []
    for lane in lanes:
        pieces = shown_pieces(lane.seen.context, whole) if lane.seen else []
        lane_pieces.append((lane, {part.piece.id: part for part in pieces}))
    # The instruction, the page in its order, then the rest.
    page = [id_ for id_ in whole if not id_.startswith("event:")]
    rank = {id_: place for place, id_ in enumerate(["instruction", *page])}
    places: dict[str, int] = {}
    for _, drawn in lane_pieces:
        for place, id_ in enumerate(drawn):
            places.setdefault(id_, rank.get(id_, len(rank) + place))
    order = sorted(places, key=lambda id_: places[id_])
    votes = [lane.seen.decision.action for lane in lanes if lane.seen and lane.seen.decision]
    return render("compare.lanes", lane_pieces, order, names, about, votes)
