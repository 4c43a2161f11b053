"""Plots as pictures, by matplotlib without its windows."""

from pathlib import Path
from typing import Any

from stategate.stores.errors import require_extra
from stategate.stores.files import atomic_path


def new_plot(rows: int = 1, columns: int = 1, **how: Any) -> tuple[Any, Any]:
    """Return a figure (``how`` is matplotlib's) and its axes: one, or an array of them.

    Raises ``UserError`` without matplotlib.
    """
    with require_extra("eval"):
        from matplotlib.figure import Figure
    figure = Figure(**how)
    return figure, figure.subplots(rows, columns)


def save_plot(figure: Any, path: str | Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png", dpi=120, bbox_inches="tight")
