"""Many episodes: a progress bar, a run directory if wanted, and a summary table."""

import json
import math
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ui.cli.output import check_target, console, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from graph.config import Config

#: metric: (heading, factor, decimals)
_COLUMNS = {
    "success": ("success %", 100, 1),
    "score": ("score %", 100, 1),
    "steps": ("steps", 1, 1),
    "tokens_per_step": ("tokens/step", 1, 0),
    "seconds": ("seconds", 1, 2),
}
_TOLD_ERRORS = 3


def play_many(
    config: "Config", goals: Sequence[int], *, out: str | None, json_target: str | None
) -> None:
    """Play ``goals`` and print the summary; without ``out`` nothing but the summary is kept."""
    play_agents(
        config.model_dump(mode="json"),
        {config.context.kind: []},
        goals,
        out=out,
        json_target=json_target,
    )


def play_agents(
    config: str | Mapping[str, Any],
    agents: Mapping[str, Sequence[str]],
    goals: Sequence[int],
    *,
    out: str | None,
    json_target: str | None = None,
    overrides: Sequence[str] = (),
    seed: int = 0,
) -> None:
    """Play ``goals`` with every agent (name to overrides) and print the summary.

    Exit code 1 if every episode failed; 130 on Ctrl-C, with what to do about it.
    """
    from evals.worlds.live import run_live

    check_target(json_target)
    command = ["stategate", *sys.argv[1:]]
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="stategate-"))
    try:
        summary = run_live(config, agents, goals, str(folder), overrides, seed, command)
        errors = _errors(folder)
    except KeyboardInterrupt:
        what = (
            f"the same command goes on from '{out}'"
            if out is not None
            else "with --out DIR the same command goes on where it stopped"
        )
        typer.echo(f"stategate: stopped; {what}", err=True)
        raise typer.Exit(130) from None
    finally:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
    if json_target is not None:
        write_json(json_target, _finite(summary))
    if json_target != "-":
        show_summary(console(), summary, errors, out)
    if len(errors) >= len(goals) * len(agents):
        raise typer.Exit(1)


def show_summary(
    screen: "Console",
    summary: Mapping[str, Any],
    errors: Sequence[Mapping[str, Any]],
    out: str | None,
) -> None:
    """Print a summary: a row an agent, mean ± standard error, then tests and errors."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("agent", style="bold", overflow="fold")
    table.add_column("n", justify="right")
    shown = {m: c for m, c in _COLUMNS.items() if any(m in row for row in summary["rows"])}
    for heading, _, _ in shown.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in summary["rows"]:
        style = "dim" if row["agent"] == "oracle" else ""
        cells = [_cell(row, metric) for metric in shown]
        table.add_row(Text(str(row["agent"])), str(row["n"]), *cells, style=style)
    screen.print(table)
    for test in summary["tests"]:
        if test["metric"] == "score":
            screen.print(_told(test), style="dim", markup=False)
    for row in errors[:_TOLD_ERRORS]:
        line = f"goal {row['goal']} ({row['agent']}) failed: {row['error']}"
        screen.print(line, style="red", markup=False, soft_wrap=True)
    if len(errors) > _TOLD_ERRORS:
        screen.print(f"… and {len(errors) - _TOLD_ERRORS} more failed", style="red")
    if out is not None:
        screen.print(f"run directory: {out}", markup=False, soft_wrap=True)


def _cell(row: Mapping[str, Any], metric: str) -> str:
    value, error = row.get(metric), row.get(f"{metric}_se")
    if value is None:
        return ""
    _, factor, places = _COLUMNS[metric]
    told = f"{value * factor:.{places}f}"
    if error is None or math.isnan(error):
        return told
    return f"{told} ± {error * factor:.{places}f}"


def _told(test: Mapping[str, Any]) -> str:
    low, high = test["low"] * 100, test["high"] * 100
    return (
        f"{test['b']} against {test['a']}: score {test['difference'] * 100:+.1f} points "
        f"(95 % interval {low:+.1f} to {high:+.1f}, p = {test['p']:.3f})"
    )


def _errors(folder: Path) -> list[dict[str, Any]]:
    path = folder / "errors.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _finite(value: Any) -> Any:
    """Replace NaN (the standard error of one value) by null, which JSON has."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
