"""``stategate eval`` and ``replay``: a command for each evaluation and benchmark, of its settings."""

from pathlib import Path
from typing import Any

import typer

from stategate.evals.core.reports import summary_text
from stategate.evals.settings import EVALUATIONS, Evaluation, Evidence, Replay
from stategate.stores.runs import read_rows
from stategate.ui.cli.main import examples
from stategate.ui.cli.output import say, stoppable, working, wrote
from stategate.ui.cli.settings_command import command_group, flags_of

eval_app = command_group(
    "Compare agents on the same tasks; each run is a directory that tables are made from.",
    "stategate eval worlds --agents full,window,query_rag --goals 0-499 --out runs/rule",
)
replay_app = typer.Typer(add_completion=False, rich_markup_mode="rich")


def run_evaluation(settings: Evaluation) -> None:
    """Run an evaluation, by several workers where they are asked for; print its summary.

    Exit code 1 where everything failed; 130 on Ctrl-C, with how to go on.
    """
    what = f"{type(settings).__name__.lower()}: loading and measuring"
    with stoppable(f"the same command goes on from '{settings.out}'"), working(what):
        summary = settings.run()
    wrote(settings.json_target, summary)
    if settings.json_target != "-":
        typer.echo(summary_text(summary))
        errors = Path(settings.out) / "errors.jsonl"
        for row in read_rows(errors)[:3] if errors.exists() else ():
            say(f"{row['agent']} failed: {row['error']}; see {errors}", "red")
        say(f"run directory: {settings.out}")
    counted = [row for row in summary["rows"] if "errors" in row]
    if counted and all(row["n"] and row["errors"] >= row["n"] for row in counted):
        raise typer.Exit(1)


def add_command(group: typer.Typer, model: type[Evaluation], name: str = "") -> None:
    """Add the command of an evaluation; under another ``name`` it is not listed."""
    how: dict[str, Any] = {"epilog": examples(*model.examples), "hidden": bool(name)}
    flagged = flags_of(run_evaluation, model)
    group.command(name or model.__name__.lower(), help=model.__doc__, **how)(flagged)


for _model in EVALUATIONS:
    add_command(eval_app, _model)
add_command(eval_app, EVALUATIONS[0], name="live")  # its name until the third stage
for _name in ("locomo", "longmemeval", "bfcl"):
    add_command(eval_app, Evidence, name=_name)
add_command(replay_app, Replay)
