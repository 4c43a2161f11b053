"""Charts as HTML and SVG that follow the page's colours, light or dark: heat maps and scatter."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ui.app.render.html import hues, macros


@dataclass(frozen=True)
class Cell:
    """One cell of a heat map: ``shade`` 0 to 1 (None: nothing there), its text, its mark."""

    shade: float | None
    text: str = ""
    title: str = ""
    mark: str = ""


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Cell]],
    caption: str,
    *,
    corner: str = "",
) -> Markup:
    """Return a table whose cells are shaded; marked ones are ringed (``hit``, ``miss``, ``ring``)."""
    return macros("charts").heatmap(zip(rows, cells, strict=True), columns, caption, corner)


@dataclass(frozen=True)
class Path:
    """A path in the plane: its points, a class for each, and whether it is the one looked at."""

    name: str
    points: Sequence[tuple[float, float]]
    classes: Sequence[str]
    bold: bool = False


def scatter(paths: Sequence[Path], caption: str, width: int = 620, height: int = 420) -> Markup:
    """Return paths in the plane: faint ones behind, the bold one numbered in front."""
    points = np.array([point for path in paths for point in path.points] or [(0.0, 0.0)])
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    span[span == 0] = 1.0
    pad = 26
    room = np.array([width, -height]) - np.array([2 * pad, -2 * pad])
    drawn = []
    for path in sorted(paths, key=lambda path: path.bold):
        shares = (np.array(path.points).reshape(-1, 2) - low) / span
        spots = (shares * room + np.array([pad, height - pad])).tolist()
        line = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(spots))
        names = [*path.classes, *[""] * len(spots)]
        drawn.append(
            (path, line, [(*spot, name) for spot, name in zip(spots, names, strict=False)])
        )
    colours = hues([name for path in paths for name in path.classes if name])
    return macros("charts").scatter(drawn, caption, width, height, colours)
