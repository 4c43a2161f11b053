"""The recurrent state over an episode, and what it made the builder keep: heat maps and a plane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from stategate.nodes.protocols import BuiltContext
from stategate.ui.app.render.context import Shown, shown_pieces
from stategate.ui.app.render.html import hues, macros


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


def render_similarity(cosines: Sequence[Sequence[float]]) -> Markup:
    """Draw how alike the states of the steps are; the near diagonal is that of successive ones."""
    lowest = min((min(row) for row in cosines), default=0.0)
    span = (1.0 - lowest) or 1.0

    def cell(i: int, j: int, value: float) -> Cell:
        title = f"steps {i + 1} and {j + 1}: cosine {value:.3f}"
        shade = max((value - lowest) / span, 0.0)
        return Cell(shade, f"{value:.2f}", title, "ring" if j == i + 1 else "")

    cells = [[cell(i, j, value) for j, value in enumerate(row)] for i, row in enumerate(cosines)]
    caption = "Similarity of states (cosine); successive steps are ringed"
    steps = _numbers(len(cosines))
    successive = [cosines[i][i + 1] for i in range(len(cosines) - 1)]
    chart = heatmap(steps, steps, cells, caption, corner="step")
    return macros("charts").similarity(chart, successive)


def render_foresight(chances: Sequence[Mapping[str, float]], classes: Sequence[str]) -> Markup:
    """Draw the foreseen class of each next action; the one that was taken is ringed."""
    names = list(chances[0]) if chances else []
    likeliest = [max(step, key=lambda name: step[name]) for step in chances]
    taken = [*classes, *[""] * len(chances)][: len(chances)]

    def cell(i: int, name: str) -> Cell:
        value = chances[i][name]
        mark = "" if taken[i] != name else "hit" if likeliest[i] == name else "miss"
        return Cell(value, f"{100 * value:.0f}", f"step {i + 1}: {name} {value:.3f}", mark)

    rows = [[cell(i, name) for i in range(len(chances))] for name in names]
    right = sum(best == name for best, name in zip(likeliest, taken, strict=True))
    caption = (
        f"Foreseen next action, in %: right at {right} of {sum(map(bool, taken))} steps "
        "(ringed: what was done, green if it was the likeliest)"
    )
    return heatmap(names, _numbers(len(chances)), rows, caption, corner="step")


def render_allocation(contexts: Sequence[BuiltContext]) -> Markup:
    """Draw, for every chunk and step, the share of its tokens that the model got to read."""
    columns = [{s.piece.id: s for s in shown_pieces(context)} for context in contexts]
    names = {id_: shown.name for column in reversed(columns) for id_, shown in column.items()}
    order = list(dict.fromkeys(id_ for column in columns for id_ in column))

    def cell(i: int, shown: Shown | None) -> Cell:
        if shown is None:
            return Cell(None)
        piece = shown.piece
        title = f"step {i + 1}: {piece.tokens_after} of {shown.whole} tokens"
        mark = "lost" if piece.dropped_actions else ""
        return Cell(shown.kept, f"{piece.tokens_after}", title, mark)

    rows = [[cell(i, column.get(id_)) for i, column in enumerate(columns)] for id_ in order]
    caption = "Allocation: tokens kept of each chunk, step by step (ringed: actions were lost)"
    return heatmap(
        [names[id_] for id_ in order], _numbers(len(contexts)), rows, caption, corner="step"
    )


def render_projection(paths: Sequence[Path]) -> Markup:
    """Draw the episode's trajectory (the bold path) in the plane of states, over reference episodes."""
    others = len(paths) - 1
    which = f"over {others} reference episodes" if others else "without reference episodes yet"
    return scatter(paths, f"States in the plane of their two main axes, {which}")


def _numbers(count: int) -> list[str]:
    return [str(i + 1) for i in range(count)]
