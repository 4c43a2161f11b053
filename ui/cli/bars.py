"""Scores as bars on a terminal."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

_WIDTH = 14


def bar(value: float, highest: float) -> "Text":
    """Return a bar of at least one block, the longest for ``highest``."""
    from rich.text import Text

    share = value / highest if highest > 0 else 0.0
    return Text("█" * max(round(_WIDTH * min(max(share, 0.0), 1.0)), 1), "green")


def show_scores(out: Any, pieces: Sequence[Any], names: Mapping[str, str]) -> None:
    """Print what each candidate scored, best first; ``names`` are their titles by id.

    A star marks those that the model read.
    """
    from rich.table import Table
    from rich.text import Text

    scored = sorted((p for p in pieces if p.score is not None), key=lambda p: -p.score)
    passages = [piece for piece in scored if piece.kind == "passage"]
    if not passages:
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for piece in passages:
        name = " ".join(names.get(piece.id, piece.id).split())[:48]
        label = Text(f"{'*' if piece.text else ' '} {name}")
        table.add_row(f"{piece.score:.3f}", bar(piece.score, passages[0].score), label)
    out.print(table)
