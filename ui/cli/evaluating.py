"""What evaluations share: check, run, resume, and at the end the summary and its table."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ui.cli.output import check_target, command, opt, say, write_json

if TYPE_CHECKING:
    from stores.workers import Crew

Workers = Annotated[int, opt("Processes that share the work.", min=1)]
Ray = Annotated[
    str | None, opt("Share it on a Ray cluster: auto, or its address.", metavar="auto|ADDRESS")
]
Deadline = Annotated[float, opt("Seconds that a worker may take for one of them.", min=1)]
_crew: ContextVar["Crew | None"] = ContextVar("who works", default=None)
#: Columns of episodes that fit a terminal; where there are others, these are shown.
_EPISODES = ("agent", "n", "success", "score", "steps", "tokens_per_step", "seconds")
_TESTED = ("score", "ndcg", "right", "f1")


def measure(out: str, json_target: str | None, run: Callable[[], Mapping[str, Any]]) -> None:
    """Run an evaluation into ``out``: ``run`` returns its summary, which is written and shown."""
    from evals.core.task import spread

    check_target(json_target)
    with resumable(out):
        summary = spread(run, _crew.get())
    finish(summary, out, json_target)


def evaluation(group: typer.Typer, *lines: str) -> Callable[[Any], Any]:
    """Return what makes a function a command of ``group`` that several workers may share."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, workers: int, ray: str | None, deadline: float, **more: Any) -> Any:
            from stores.workers import Crew

            settled = _count(workers, ray)
            token = _crew.set(None if settled is None else Crew(settled, ray, deadline))
            try:
                return function(*args, **more)
            finally:
                _crew.reset(token)

        own = inspect.signature(function, eval_str=True)
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, default, kind in (
                ("workers", 1, Workers), ("ray", None, Ray), ("deadline", 3600.0, Deadline)
            )
        ]  # fmt: skip
        named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.parameters.values()]
        run.__signature__ = own.replace(parameters=[*named, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*named, *added)}
        command(group, *lines)(run)
        return function

    return decorate


def _count(workers: int, ray: str | None) -> int | None:
    """Return how many workers are asked for, None for none: on a cluster one is one, too."""
    return workers if workers > 1 or ray is not None else None


def names(text: str) -> list[str]:
    """Return the parts of a comma-separated list, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def command_line() -> list[str]:
    """Return the command as it was typed, for args.json."""
    return ["stategate", *sys.argv[1:]]


@contextmanager
def resumable(out: str | None) -> Iterator[None]:
    """Tell on Ctrl-C how to go on; ``out`` is the run directory, None where none is kept."""
    try:
        yield
    except KeyboardInterrupt:
        hint = f"goes on from '{out}'" if out else "with --out DIR goes on where it stopped"
        typer.echo(f"stategate: stopped; the same command {hint}", err=True)
        raise typer.Exit(130) from None


def show_table(summary: Mapping[str, Any]) -> None:
    """Print the summary's rows, mean ± standard error, and its main tests."""
    from evals.core.report import table

    rows = summary["rows"]
    if any("tokens_per_step" in row for row in rows):
        rows = [
            {k: v for k, v in row.items() if k.removesuffix("_se") in _EPISODES} for row in rows
        ]
    typer.echo(table(rows, "simple"))
    for test in summary["tests"]:
        if test["metric"] in _TESTED and test.get("dataset") in (None, "average"):
            head = f"{test['experiment']}: " if "experiment" in test else ""
            typer.echo(
                f"{head}{test['b']} against {test['a']}: {test['metric']} {test['difference']:+.3f} "
                f"(95 % interval {test['low']:+.3f} to {test['high']:+.3f}), p = {test['p']:.3f}"
            )


def finish(
    summary: Mapping[str, Any],
    out: str,
    json_target: str | None,
    show: Callable[[Mapping[str, Any]], None] = show_table,
    is_kept: bool = True,
) -> None:
    """Write and show a summary and its first errors; exit code 1 where everything failed.

    ``is_kept`` says whether the run directory ``out`` stays.
    """
    from stores.runs import read_rows

    path = Path(out) / "errors.jsonl"
    errors = read_rows(path) if path.exists() else []
    if json_target is not None:
        write_json(json_target, summary)
    if json_target != "-":
        show(summary)
        for row in errors[:3]:
            what = ", ".join(f"{k} {row[k]}" for k in row if k not in ("agent", "step", "error"))
            say(f"{what} ({row['agent']}) failed: {row['error']}", "red")
        if len(errors) > 3:
            say(f"… and {len(errors) - 3} more failed", "red")
        if is_kept:
            say(f"run directory: {out}")
    counted = [row for row in summary["rows"] if "errors" in row]
    if counted and all(row["n"] and row["errors"] >= row["n"] for row in counted):
        raise typer.Exit(1)
