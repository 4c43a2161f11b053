"""What evaluations share: flags, check, run, resume, and at the end the summary and its table."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from stategate.ui.cli.output import (
    Config,
    JsonFile,
    Overrides,
    check_target,
    command,
    opt,
    say,
    working,
    write_json,
)

Workers = Annotated[int, opt("Processes that share the work.", min=1)]
Ray = Annotated[
    str | None, opt("Share it on a Ray cluster: auto, or its address.", metavar="auto|ADDRESS")
]
#: The flags of every evaluation: what each is, and its default (... where it has none).
_FLAGS: dict[str, tuple[Any, Any]] = {
    "out": (
        Annotated[str, opt("Run directory; goes on if it is there already.", metavar="DIR")],
        ...,
    ),
    "config": (Config, "webshop"),
    "overrides": (Overrides, None),
    "seed": (Annotated[int, opt("Of the statistics; written to args.json.")], 0),
    "json_target": (JsonFile, None),
    "workers": (Workers, 1),
    "ray": (Ray, None),
    "deadline": (
        Annotated[float, opt("Seconds that a worker may take for one of them.", min=1)],
        3600.0,
    ),
}
WORKERS = ("workers", "ray", "deadline")
#: Columns of episodes that fit a terminal; where there are others, these are shown.
_EPISODES = ("agent", "n", "success", "score", "steps", "tokens_per_step", "seconds")
_TESTED = ("score", "ndcg", "right", "f1")


@dataclass(frozen=True)
class Run:
    """What every evaluation is told: its run directory, its config, the seed of its statistics."""

    out: str
    config: str
    overrides: list[str]
    seed: int


def evaluation(
    group: typer.Typer,
    *lines: str,
    without: tuple[str, ...] = (),
    show: Callable[[Mapping[str, Any]], None] | None = None,
    **defaults: Any,
) -> Callable[[Any], Any]:
    """Return what makes ``function(run, ...)`` a command of ``group`` that runs an evaluation.

    The function returns what runs it and returns its summary (picklable, for several workers). The
    common flags are added, with ``defaults`` and but for those ``without``; ``show`` prints a summary.
    """

    def decorate(function: Any) -> Any:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        added = {
            name: (kind, defaults.get(name, default))
            for name, (kind, default) in _FLAGS.items()
            if name not in without
        }

        @functools.wraps(function)
        def run(**given: Any) -> None:
            told = {name: default for name, (_, default) in _FLAGS.items()}
            told |= {name: given.pop(name) for name in added}
            common = Run(told["out"], told["config"], told["overrides"] or [], told["seed"])
            check_target(told["json_target"])
            with resumable(common.out), working(f"{function.__name__}: loading and measuring"):
                from stategate.evals.core.task import spread

                measured = function(common, **given)
                crew = crew_of(told["workers"], told["ray"], told["deadline"])
                summary = spread(measured, crew)
            finish(summary, common.out, told["json_target"], show or show_table)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
            + [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=kind,
                    default=inspect.Parameter.empty if default is ... else default,
                )
                for name, (kind, default) in added.items()
            ]
        )
        parameters = inspect.signature(run).parameters.values()
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        command(group, *lines)(run)
        return run

    return decorate


def crew_of(workers: int, ray: str | None, deadline: float = 3600.0) -> Any:
    """Return who shares the work, None where nobody does: on a cluster one worker is one, too."""
    from stategate.stores.workers import Crew

    return Crew(workers, ray, deadline) if workers > 1 or ray is not None else None


def names(text: str) -> list[str]:
    """Return the parts of a comma-separated list, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


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
    from stategate.evals.core.report import table

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
    from stategate.stores.runs import read_rows

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
