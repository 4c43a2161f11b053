"""Runs: what was measured, its episodes, one of them step by step, and two runs side by side."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from markupsafe import Markup

from stategate.evals.core.report import table
from stategate.evals.core.run_directory import Pair, Run
from stategate.ui.app.render.episode import Stop, render_trail
from stategate.ui.app.render.html import macros, plural, short

#: Rows of a table shown at once; the rest is counted.
SHOWN = 200
_RATES = ("success", "score", "finished")


def render_run(run: Run) -> Markup:
    """Draw what a run was: its facts, its table, its plots, its tests."""
    args = run.args
    goals = args.get("goals") if isinstance(args.get("goals"), list) else []
    checkpoints = (args.get("checkpoints") or {}).items()
    facts = {
        "command": macros("runs").command(args.get("command", "")),
        "commit": str(args.get("commit", ""))[:60],
        "seed": args.get("seed"),
        "data": _data(args.get("data")),
        "goals": f"{plural(len(goals), 'goal')} ({goals[0]}–{goals[-1]})" if goals else None,
        "step cap": args.get("max_steps"),
        "checkpoints": ", ".join(f"{name} {str(value)[:10]}" for name, value in checkpoints),
    }
    rows, tests = run.summary.get("rows") or [], run.summary.get("tests") or []
    pictures = [(p.name, base64.b64encode(p.read_bytes()).decode("ascii")) for p in run.pictures]
    return macros("runs").run(
        run.folder.name,
        [pair for pair in facts.items() if pair[1] not in (None, "")],
        render_table(rows) if rows else "",
        _rates(rows),
        render_table(tests) if tests else "",
        pictures[:6],
    )


def _rates(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[tuple[str, float, str]]]:
    """Return success (or the first rate there is) by agent, as bars with standard errors in words."""
    metric = next((m for m in _RATES if any(_is_number(row.get(m)) for row in rows)), "")
    lines = []
    for row in rows:
        value, error, tokens = row.get(metric), row.get(f"{metric}_se"), row.get("tokens_per_step")
        if _is_number(value):
            text = f"{100 * value:.1f} %"
            text += f" ± {100 * error:.1f}" if _is_number(error) else ""
            text += f" · {tokens:,.0f} tokens/step" if _is_number(tokens) else ""
            lines.append((str(row.get("agent", "")), value, text))
    return metric, lines


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float)


def render_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw rows as a table, a standard error beside its value."""
    shown = [
        {k: short(v, 90) if isinstance(v, str | list | dict) else v for k, v in row.items()}
        for row in rows[:SHOWN]
    ]
    html = table(shown, "html").replace("<table>", '<table class="sg-table">', 1)
    more = f"and {len(rows) - SHOWN:,} more rows" if len(rows) > SHOWN else ""
    body = Markup(html.replace(" ± ", "\u00a0±\u00a0"))  # noqa: S704 - tabulate escapes cells
    return macros("runs").table(body, more)


def render_episodes(
    rows: Sequence[Mapping[str, Any]], total: int, chosen: tuple[str, int] | None = None
) -> Markup:
    """Draw episodes as rows; each opens its replay."""
    if not rows:
        return macros("parts").muted("No episode passes these filters.")
    names = [(row.get("agent"), row.get("goal")) for row in rows[:SHOWN]]
    lines = [
        (row, f"{name[0]}|{name[1]}", name == chosen)
        for row, name in zip(rows, names, strict=False)
    ]
    count = f"{len(rows):,} of {plural(total, 'episode')}"
    if len(rows) > SHOWN:
        count += f", the first {SHOWN} shown"
    return macros("runs").episodes(lines, count)


def render_steps(steps: Sequence[Mapping[str, Any]], at: int, episode: Mapping[str, Any]) -> Markup:
    """Draw an episode's steps; the one at ``at`` (the number taken for the end) is looked at."""
    stops = []
    for i, step in enumerate(steps):
        lost = sum((step.get("lost") or {}).values())
        facts = f"{step.get('tokens', 0):,} tokens" + (f" · {lost} lost" if lost else "")
        action = str(step.get("action", ""))
        stops.append(Stop(i, action, facts=facts, fallback=step.get("fallback")))
    trail = render_trail(stops, at if at < len(steps) else None, over=True)
    return macros("runs").steps(episode, trail)


def render_pairs(pairs: Sequence[Pair], first: str, second: str) -> Markup:
    """Draw two runs episode by episode, the largest differences first."""
    if not pairs:
        return macros("parts").muted("These two have no goal in common.")
    better = sum(pair.difference > 0 for pair in pairs)
    worse = sum(pair.difference < 0 for pair in pairs)
    mean = sum(pair.difference for pair in pairs) / len(pairs)
    verdict = (
        f"{plural(len(pairs), 'goal')} in common: {second} better on {better}, {first} on {worse}, "
        f"equal on {len(pairs) - better - worse}; mean difference {mean:+.3f}"
    )
    return macros("runs").pairs(verdict, ("goal", first, second, "difference"), pairs[:SHOWN])


def _data(data: Any) -> str:
    if not isinstance(data, Mapping):
        return str(data or "")
    digest = str(data.get("sha256", ""))[:12]
    return f"{data.get('name', '')}" + (f" ({digest}…)" if digest else "")


def render_rows(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Markup:
    """Draw the other tables of a run (questions, points of a curve), folded."""
    folded = [
        (f"{name}.jsonl, {plural(len(rows), 'row')}", render_table(rows))
        for name, rows in tables.items()
        if name not in ("episodes", "steps") and rows
    ]
    return macros("runs").rows(folded)
