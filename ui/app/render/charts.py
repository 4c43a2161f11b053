"""Charts as HTML and SVG that follow the page's colours, light or dark: heat maps, scatter, bars."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ui.app.render.html import el, percent, short

#: Colours of classes, by order of appearance, as CSS hues.
HUES = (243, 174, 28, 325, 95, 205, 0, 275)


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
    head = el("tr", el("th", corner), [el("th", name, scope="col") for name in columns])
    body = []
    for name, line in zip(rows, cells, strict=True):
        drawn = [
            el("td", cls="sg-none")
            if cell.shade is None
            else el(
                "td", el("span", cell.text, cls=f"sg-cell-{cell.mark}" if cell.mark else None),
                style=f"--s:{cell.shade:.3f}", title=cell.title or None,
            )
            for cell in line
        ]  # fmt: skip
        body.append(el("tr", el("th", short(name, 34), scope="row", title=name), drawn))
    table = el("table", el("thead", head), el("tbody", body), cls="sg-heat", aria_label=caption)
    return el(
        "div",
        el("div", caption, cls="sg-panel-title sg-caption"),
        el("div", table, cls="sg-scroll", tabindex="0"),
    )


def bars(rows: Sequence[tuple[str, float, str]], caption: str = "") -> Markup:
    """Return horizontal bars: (name, share 0 to 1, what stands at the end)."""
    lines = [
        el(
            "div",
            el("span", short(name, 60), cls="sg-bar-name", title=name),
            el("span", el("i", style=f"width:{percent(share)}"), cls="sg-bar-line"),
            el("span", end, cls="sg-bar-value"),
            cls="sg-bar",
        )
        for name, share, end in rows
    ]
    head = el("div", caption, cls="sg-panel-title") if caption else None
    return el("div", head, lines, cls="sg-bars")


@dataclass(frozen=True)
class Path:
    """A path in the plane: its points, a class for each, and whether it is the one looked at."""

    name: str
    points: Sequence[tuple[float, float]]
    classes: Sequence[str]
    bold: bool = False


def scatter(paths: Sequence[Path], caption: str, width: int = 620, height: int = 420) -> Markup:
    """Return paths in the plane: faint ones behind, the bold one numbered in front."""
    xs = [x for path in paths for x, _ in path.points] or [0.0]
    ys = [y for path in paths for _, y in path.points] or [0.0]
    pad = 26

    def place(x: float, y: float) -> tuple[float, float]:
        span_x, span_y = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
        return (
            pad + (x - min(xs)) / span_x * (width - 2 * pad),
            height - pad - (y - min(ys)) / span_y * (height - 2 * pad),
        )

    names = list(dict.fromkeys(c for path in paths for c in path.classes if c))
    hue = {name: HUES[i % len(HUES)] for i, name in enumerate(names)}
    parts: list[Markup] = []
    for path in sorted(paths, key=lambda path: path.bold):
        spots = [place(x, y) for x, y in path.points]
        line = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(spots))
        parts.append(el("path", d=line, cls="sg-path sg-path-bold" if path.bold else "sg-path"))
        for i, (x, y) in enumerate(spots):
            name = path.classes[i] if i < len(path.classes) else ""
            tone = f"--h:{hue[name]}" if name in hue else "--h:220"
            title = el("title", f"{path.name}, step {i + 1}: {name or 'no action yet'}")
            marks = "sg-spot sg-spot-bold" if path.bold else "sg-spot"
            radius = "11" if path.bold else "3.5"
            parts.append(
                el("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=radius, style=tone, cls=marks)
            )
            if path.bold:
                parts.append(el("text", str(i + 1), x=f"{x:.1f}", y=f"{y + 4:.1f}"))
    legend = [el("span", el("i", style=f"--h:{hue[name]}"), name, cls="sg-key") for name in names]
    picture = el(
        "svg", parts, viewBox=f"0 0 {width} {height}", cls="sg-scatter", role="img",
        aria_label=caption, preserveAspectRatio="xMidYMid meet",
    )  # fmt: skip
    return el(
        "figure", el("figcaption", caption, cls="sg-panel-title"), picture,
        el("div", legend, cls="sg-row"), cls="sg-figure",
    )  # fmt: skip
