"""The recurrent state over an episode, and what it made the builder keep."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from nodes.protocols import BuiltContext
from ui.app.render.charts import Cell, Path, heatmap, scatter
from ui.app.render.context import fold_history, kept_share, piece_name, size
from ui.app.render.html import el, percent


def render_similarity(cosines: Sequence[Sequence[float]]) -> Markup:
    """Draw how alike the states of the steps are; the near diagonal is that of successive ones."""
    steps = [str(i + 1) for i in range(len(cosines))]
    lowest = min((min(row) for row in cosines), default=0.0)
    span = (1.0 - lowest) or 1.0
    cells = [
        [
            Cell(
                max((value - lowest) / span, 0.0), f"{value:.2f}",
                f"steps {i + 1} and {j + 1}: cosine {value:.3f}", "ring" if j == i + 1 else "",
            )
            for j, value in enumerate(row)
        ]
        for i, row in enumerate(cosines)
    ]  # fmt: skip
    successive = [cosines[i][i + 1] for i in range(len(cosines) - 1)]
    line = [
        el("span", el("i", style=f"height:{percent(max(value, 0.02))}"), f"{value:.2f}",
           cls="sg-column", title=f"step {i + 1} to {i + 2}: cosine {value:.3f}")
        for i, value in enumerate(successive)
    ]  # fmt: skip
    caption = "Similarity of states (cosine); successive steps are ringed"
    return el("div", heatmap(steps, steps, cells, caption, corner="step"),
              el("div", line, cls="sg-columns") if line else None)  # fmt: skip


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
    return heatmap(names, [str(i + 1) for i in range(len(chances))], rows, caption, corner="step")


def render_allocation(contexts: Sequence[BuiltContext]) -> Markup:
    """Draw, for every chunk and step, the share of its tokens that the model got to read."""
    columns = [fold_history(context.pieces) for context in contexts]
    names: dict[str, str] = {}
    for column in columns:
        for piece in column:
            names.setdefault(piece.id, piece_name(piece))

    def cell(i: int, id_: str) -> Cell:
        piece = next((piece for piece in columns[i] if piece.id == id_), None)
        if piece is None:
            return Cell(None)
        title = f"step {i + 1}: {piece.tokens_after} of {size(piece)} tokens"
        mark = "lost" if piece.dropped_actions else ""
        return Cell(kept_share(piece), f"{piece.tokens_after}", title, mark)

    rows = [[cell(i, id_) for i in range(len(columns))] for id_ in names]
    caption = "Allocation: tokens kept of each chunk, step by step (ringed: actions were lost)"
    steps = [str(i + 1) for i in range(len(contexts))]
    return heatmap(list(names.values()), steps, rows, caption, corner="step")


def render_projection(paths: Sequence[Path]) -> Markup:
    """Draw the episode's trajectory (the bold path) in the plane of states, over reference episodes."""
    others = len(paths) - 1
    which = f"over {others} reference episodes" if others else "without reference episodes yet"
    return scatter(paths, f"States in the plane of their two main axes, {which}")
