"""``stategate eval`` and ``replay``: a command for each evaluation and benchmark, of its settings."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from stategate.evals.settings import BENCHES, EVALUATIONS, Evaluation, Replay
from stategate.stores.settings import argument
from stategate.ui.cli.output import say, working, write_json
from stategate.ui.cli.settings_command import command_group, examples, flags_of, single

eval_app = command_group(
    "Compare agents on the same tasks; each run is a directory that tables are made from.",
    "stategate eval worlds --agents full,window,query_rag --goals 0-499 --out runs/rule",
)
bench_app = command_group(
    "Measure how long things take; compare figures of one machine and one table only.",
    "stategate eval bench step --data sample --out runs/bench-step",
    "stategate eval bench bank --bank banks/state --sizes 10000,100000 --out runs/bench-bank",
)
eval_app.add_typer(bench_app, name="bench")
replay_app = single()


def run_evaluation(settings: Evaluation) -> None:
    """Run an evaluation, by several workers where they are asked for; print its summary."""
    with resumable(settings.out), working(f"{settings.command()}: loading and measuring"):
        summary = settings.run()
    finish(summary, settings.out, settings.json_target, settings.render(summary))
    if settings.json_target != "-":
        say(f"run directory: {settings.out}")


def add_command(group: typer.Typer, model: type[Evaluation], name: str = "") -> None:
    """Add the command of an evaluation; under another ``name`` it is not listed."""
    how: dict[str, Any] = {"epilog": examples(*model.examples), "hidden": bool(name)}
    flagged = flags_of(run_evaluation, model)
    group.command(name or model.command(), help=model.__doc__, **how)(flagged)


for _model in EVALUATIONS:
    add_command(eval_app, _model)
for _model in BENCHES:
    add_command(bench_app, _model)
add_command(eval_app, EVALUATIONS[0], name="live")  # its name until the third stage


class ReplayThreads(Replay):
    """Read recorded threads again under each arm: tokens, billed cost, what calls needed."""

    examples = ("stategate replay threads.jsonl --arms nothing,compress --out runs/replay",)
    data: str = argument(..., "JSON lines, JSON, or a checkpoint database.", metavar="THREADS")

    @classmethod
    def command(cls) -> str:
        """Return its name."""
        return "replay"


add_command(replay_app, ReplayThreads)


@contextmanager
def resumable(out: str | None) -> Iterator[None]:
    """Tell on Ctrl-C how to go on; ``out`` is the run directory, None where none is kept."""
    try:
        yield
    except KeyboardInterrupt:
        hint = f"goes on from '{out}'" if out else "with --out DIR goes on where it stopped"
        typer.echo(f"stategate: stopped; the same command {hint}", err=True)
        raise typer.Exit(130) from None


def finish(summary: Mapping[str, Any], out: str, json_target: str | None, text: str) -> None:
    """Write and show a summary and its first errors; exit code 1 where everything failed."""
    from stategate.stores.runs import read_rows

    path = Path(out) / "errors.jsonl"
    errors = read_rows(path) if path.exists() else []
    if json_target is not None:
        write_json(json_target, summary)
    if json_target != "-":
        typer.echo(text)
        for row in errors[:3]:
            what = ", ".join(f"{k} {row[k]}" for k in row if k not in ("agent", "step", "error"))
            say(f"{what} ({row['agent']}) failed: {row['error']}", "red")
        if len(errors) > 3:
            say(f"… and {len(errors) - 3} more failed", "red")
    counted = [row for row in summary["rows"] if "errors" in row]
    if counted and all(row["n"] and row["errors"] >= row["n"] for row in counted):
        raise typer.Exit(1)
