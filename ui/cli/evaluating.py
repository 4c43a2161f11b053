"""What the commands of ``stategate eval`` share: resuming, the summary at the end, its table."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from ui.cli.output import write_json


def names(text: str) -> list[str]:
    """Return the parts of a comma-separated list, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def command_line() -> list[str]:
    """Return the command as it was typed, for args.json."""
    return ["stategate", *sys.argv[1:]]


@contextmanager
def resumable(out: str) -> Iterator[None]:
    """Tell on Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"stategate: stopped; the same command goes on from '{out}'", err=True)
        raise typer.Exit(130) from None


def show_table(summary: Mapping[str, Any]) -> None:
    """Print the summary's rows and its main tests."""
    from evals.core.report import table

    typer.echo(table(summary["rows"], "simple"))
    for test in summary["tests"]:
        if test["metric"] in ("ndcg", "right", "f1") and test.get("dataset") in (None, "average"):
            head = f"{test['experiment']}: " if "experiment" in test else ""
            typer.echo(
                f"{head}{test['b']} against {test['a']}: {test['metric']} "
                f"{test['difference']:+.3f} ({test['low']:+.3f} to {test['high']:+.3f}), "
                f"p = {test['p']:.3f}"
            )


def finish(
    summary: Mapping[str, Any],
    out: str,
    json_target: str | None,
    show: Callable[[Mapping[str, Any]], None] = show_table,
) -> None:
    """Write and show a summary and its first errors; exit code 1 where everything failed."""
    from stores.runs import read_rows

    path = Path(out) / "errors.jsonl"
    errors = read_rows(path) if path.exists() else []
    if json_target is not None:
        write_json(json_target, summary)
    if json_target != "-":
        show(summary)
        for row in errors[:3]:
            what = " ".join(str(v) for k, v in row.items() if k not in ("agent", "step", "error"))
            typer.secho(f"{row['agent']} {what} failed: {row['error']}", fg="red")
        if len(errors) > 3:
            typer.secho(f"… and {len(errors) - 3} more failed", fg="red")
        typer.echo(f"run directory: {out}")
    counted = [row for row in summary["rows"] if "errors" in row]
    if counted and all(row["n"] and row["errors"] >= row["n"] for row in counted):
        raise typer.Exit(1)
