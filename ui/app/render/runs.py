"""Runs: what was measured, its episodes, one of them step by step, and two runs side by side."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from evals.core.report import table
from evals.core.run_directory import Pair, Run, outcome_of
from ui.app.render.charts import bars
from ui.app.render.episode import Stop, render_trail
from ui.app.render.html import el, join, percent, plural, short

#: Rows of a table shown at once; the rest is counted.
SHOWN = 200
_RATES = ("success", "score", "finished")


def render_run(run: Run) -> Markup:
    """Draw what a run was: its facts, its table, its plots, its tests."""
    args = run.args
    goals = args.get("goals") if isinstance(args.get("goals"), list) else []
    facts: dict[str, Any] = {
        "command": el("code", args.get("command", "")),
        "commit": str(args.get("commit", ""))[:60],
        "seed": args.get("seed"),
        "data": _data(args.get("data")),
        "goals": f"{plural(len(goals), 'goal')} ({goals[0]}–{goals[-1]})" if goals else None,
        "step cap": args.get("max_steps"),
        "checkpoints": ", ".join(
            f"{name} {str(value)[:10]}" for name, value in (args.get("checkpoints") or {}).items()
        ),
    }
    lines = [
        el("div", el("span", name, cls="sg-fact-name"), el("span", value), cls="sg-fact")
        for name, value in facts.items()
        if value not in (None, "")
    ]
    parts: list[Any] = [
        el("div", run.folder.name, cls="sg-run-name"),
        el("div", lines, cls="sg-facts-list"),
    ]
    rows = run.summary.get("rows") or []
    nothing = "This run has no summary yet: it is going on, or was stopped."
    parts += (
        [render_table(rows), render_rates(rows)] if rows else [el("div", nothing, cls="sg-muted")]
    )
    if run.summary.get("tests"):
        title = el("div", "Paired tests", cls="sg-panel-title")
        parts += [title, render_table(run.summary["tests"])]
    for path in run.pictures[:6]:
        coded = base64.b64encode(path.read_bytes()).decode("ascii")
        picture = el("img", src=f"data:image/png;base64,{coded}", alt=path.name, cls="sg-plot")
        parts.append(picture)
    return el("div", parts, cls="sg-box sg-run")


def render_rates(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw success (or the first rate there is) as bars with standard errors in words."""
    metric = next((m for m in _RATES if any(isinstance(r.get(m), int | float) for r in rows)), None)
    if metric is None:
        return Markup("")
    lines = []
    for row in rows:
        value = row.get(metric)
        if isinstance(value, int | float):
            error = row.get(f"{metric}_se")
            text = f"{100 * value:.1f} %"
            text += f" ± {100 * error:.1f}" if isinstance(error, int | float) else ""
            tokens = row.get("tokens_per_step")
            text += f" · {tokens:,.0f} tokens/step" if isinstance(tokens, int | float) else ""
            lines.append((str(row.get("agent", "")), float(value), text))
    return bars(lines, metric)


def render_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw rows as a table, a standard error beside its value."""
    shown = [{key: _figure(value) for key, value in row.items()} for row in rows[:SHOWN]]
    html = table(shown, "html").replace("<table>", '<table class="sg-table">', 1)
    html = html.replace(" ± ", "\u00a0±\u00a0")
    more = f"and {len(rows) - SHOWN:,} more rows" if len(rows) > SHOWN else ""
    body = Markup(html)  # noqa: S704 - tabulate escapes what is in cells and heads
    return el("div", body, el("div", more, cls="sg-muted"), cls="sg-scroll", tabindex="0")


def _figure(value: Any) -> Any:
    return short(value, 90) if isinstance(value, str | list | dict) else value


def render_episodes(
    rows: Sequence[Mapping[str, Any]], total: int, chosen: tuple[str, int] | None = None
) -> Markup:
    """Draw episodes as rows; each opens its replay."""
    if not rows:
        return el("div", "No episode passes these filters.", cls="sg-muted")
    lines = []
    for row in rows[:SHOWN]:
        key = f"{row.get('agent')}|{row.get('goal')}"
        here = chosen is not None and key == f"{chosen[0]}|{chosen[1]}"
        lines.append(
            el(
                "button",
                el("b", f"#{row.get('goal')}"),
                el("span", row.get("agent", ""), cls="sg-muted"),
                _reward(row),
                el("span", f"{row.get('steps', '?')} steps", cls="sg-muted"),
                el("span", f"{row.get('tokens', 0):,} tokens", cls="sg-muted"),
                el("span", short(row["error"], 80), cls="sg-fallback") if row.get("error") else None,
                type="button", data_pick=key, cls="sg-episode" + (" sg-here" if here else ""),
            )
        )  # fmt: skip
    count = f"{len(rows):,} of {plural(total, 'episode')}"
    if len(rows) > SHOWN:
        count += f", the first {SHOWN} shown"
    return el("div", el("div", count, cls="sg-muted"), el("div", lines, cls="sg-episodes"))


def _reward(row: Mapping[str, Any]) -> Markup:
    reward = float(row.get("reward") or 0.0)
    tone = {"success": "good", "partial": "warn"}.get(outcome_of(row), "bad")
    word = "error" if row.get("error") else f"{reward:.2f}"
    return el("span", word, cls=f"sg-pill sg-pill-{tone}")


def render_steps(steps: Sequence[Mapping[str, Any]], at: int, episode: Mapping[str, Any]) -> Markup:
    """Draw an episode's steps; the one at ``at`` (the number taken for the end) is looked at."""
    stops = []
    for i, step in enumerate(steps):
        lost = sum((step.get("lost") or {}).values())
        facts = f"{step.get('tokens', 0):,} tokens" + (f" · {lost} lost" if lost else "")
        stops.append(
            Stop(i, str(step.get("action", "")), facts=facts, fallback=step.get("fallback"))
        )
    here = at if at < len(steps) else None
    failure = short(episode["error"], 200) if episode.get("error") else None
    head = el(
        "div",
        el("b", f"{episode.get('agent')} · goal {episode.get('goal')} "),
        _reward(episode),
        el("span", failure, cls="sg-fallback") if failure else None,
        cls="sg-row",
    )
    return el("div", head, render_trail(stops, here, over=True))


def render_pairs(pairs: Sequence[Pair], first: str, second: str) -> Markup:
    """Draw two runs episode by episode, the largest differences first."""
    if not pairs:
        return el("div", "These two have no goal in common.", cls="sg-muted")
    better = sum(pair.difference > 0 for pair in pairs)
    worse = sum(pair.difference < 0 for pair in pairs)
    mean = sum(pair.difference for pair in pairs) / len(pairs)
    verdict = (
        f"{plural(len(pairs), 'goal')} in common: {second} better on {better}, {first} on {worse}, "
        f"equal on {len(pairs) - better - worse}; mean difference {mean:+.3f}"
    )
    lines = []
    for pair in pairs[:SHOWN]:
        lines.append(
            el(
                "tr",
                el("td", el("b", f"#{pair.goal}")),
                [el("td", _reward(row), el("span", f" {row.get('steps', '?')} steps, "
                    f"{row.get('tokens', 0):,} tokens", cls="sg-muted")) for row in (pair.a, pair.b)],
                el("td", _difference(pair.difference)),
            )
        )  # fmt: skip
    head = el("tr", [el("th", name, scope="col") for name in ("goal", first, second, "difference")])
    table = el("table", el("thead", head), el("tbody", lines), cls="sg-table")
    return el(
        "div", el("p", verdict), el("div", table, cls="sg-scroll", tabindex="0"), cls="sg-box"
    )


def _difference(value: float) -> Markup:
    side = "right" if value < 0 else "left"
    tone = "bad" if value < 0 else "good"
    bar = el("i", style=f"width:{percent(abs(value) / 2)};{side}:50%", cls=f"sg-swing-{tone}")
    return el("span", bar, el("span", f"{value:+.2f}"), cls="sg-swing")


def _data(data: Any) -> str:
    if not isinstance(data, Mapping):
        return str(data or "")
    digest = str(data.get("sha256", ""))[:12]
    return f"{data.get('name', '')}" + (f" ({digest}…)" if digest else "")


def render_rows(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Markup:
    """Draw the other tables of a run (questions, points of a curve), folded."""
    return join(
        [
            el(
                "details",
                el("summary", f"{name}.jsonl, {plural(len(rows), 'row')}"),
                render_table(rows),
                cls="sg-prompt",
            )
            for name, rows in tables.items()
            if name not in ("episodes", "steps") and rows
        ]
    )
