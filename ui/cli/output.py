"""What commands share: flags, examples in help, consoles, JSON files, bars and tables."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stores import files
from stores.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

#: What a transcript shows of each step.
Show = Literal["page", "context", "none"]
_BAR = 14  # blocks of the longest bar
#: Columns of a summary that fit a terminal.
_COLUMNS = ("agent", "n", "success", "score", "steps", "tokens_per_step", "seconds")
_SHOWN_ERRORS = 3

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SLOT.FIELD=VALUE", help="Change the config; repeatable."),
]
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write all of it; - is stdout.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to stdout.")]


def command_group(about: str, *lines: str) -> typer.Typer:
    """Return a group of commands that alone shows its help, with ``lines`` as examples."""
    group = typer.Typer(epilog=examples(*lines))

    @group.callback(invoke_without_command=True, help=about)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return group


def examples(*lines: str) -> str:
    """Return a help epilog that shows ``lines`` as examples, one a line."""
    plain = (line.replace("[", "\\[") for line in lines)  # no rich markup
    return "\n".join(["[bold]Examples[/bold]", *(f"  {line}" for line in plain)])


def console(*, stderr: bool = False) -> "Console":
    """Return a console for the terminal; 80 columns where there is none."""
    from rich.console import Console

    known = os.environ.get("COLUMNS", "").isdigit()
    plain = Console(stderr=stderr, highlight=False)
    if plain.is_terminal or known:
        return plain
    return Console(stderr=stderr, highlight=False, width=80)


def say(text: str, style: str = "", *, stderr: bool = False) -> None:
    """Print a line as it is: no markup is read out of it, and it is not folded."""
    console(stderr=stderr).print(text, style=style, markup=False, soft_wrap=True)


def check_target(target: str | None) -> None:
    """Refuse a JSON file that cannot be written, before the work whose result it is to hold."""
    if target is None or target == "-":
        return
    path = Path(target).expanduser()
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise UserError(f"cannot write '{target}' ({error.strerror}): name another file") from None
    if path.is_dir():
        raise UserError(f"cannot write '{target}': it is a folder, name a file")


def write_json(target: str, value: Any) -> None:
    """Write ``value`` to a file, whole or not at all, or to stdout if ``target`` is ``-``."""
    value = _finite(value)
    if target == "-":
        typer.echo(json.dumps(value, indent=2))
        return
    files.write_json(target, value, indent=2)


def _finite(value: Any) -> Any:
    """Replace NaN (the standard error of one value) by null, which JSON has."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def bar(value: float, highest: float) -> "Text":
    """Return a bar of at least one block, the longest for ``highest``."""
    from rich.text import Text

    share = value / highest if highest > 0 else 0.0
    return Text("█" * max(round(_BAR * min(max(share, 0.0), 1.0)), 1), "green")


def show_scores(out: "Console", pieces: Sequence[Any], names: Mapping[str, str]) -> None:
    """Print what each passage scored, best first; ``names`` are their titles by id.

    A star marks those that the model read.
    """
    from rich.table import Table
    from rich.text import Text

    scored = [p for p in pieces if p.score is not None and p.kind == "passage"]
    table = Table(box=None, pad_edge=False, show_header=False)
    for piece in sorted(scored, key=lambda p: -p.score):
        name = " ".join(names.get(piece.id, piece.id).split())[:48]
        title = Text(f"{'*' if piece.text else ' '} {name}")
        table.add_row(f"{piece.score:.3f}", bar(piece.score, max(p.score for p in scored)), title)
    if scored:
        out.print(table)


def show_summary(
    screen: "Console",
    summary: Mapping[str, Any],
    errors: Sequence[Mapping[str, Any]],
    out: str | None,
) -> None:
    """Print a summary: a row an agent, mean ± standard error, then tests and errors."""
    from evals.core.report import table

    rows = [
        {key: value for key, value in row.items() if key.removesuffix("_se") in _COLUMNS}
        for row in summary["rows"]
    ]
    screen.print(table(rows, "simple"), markup=False, soft_wrap=True)
    for test in summary["tests"]:
        if test["metric"] == "score":
            screen.print(
                f"{test['b']} against {test['a']}: score {test['difference'] * 100:+.1f} points (95 % "
                f"interval {test['low'] * 100:+.1f} to {test['high'] * 100:+.1f}, p = {test['p']:.3f})",
                style="dim", markup=False,
            )  # fmt: skip
    for row in errors[:_SHOWN_ERRORS]:
        line = f"goal {row['goal']} ({row['agent']}) failed: {row['error']}"
        screen.print(line, style="red", markup=False, soft_wrap=True)
    if len(errors) > _SHOWN_ERRORS:
        screen.print(f"… and {len(errors) - _SHOWN_ERRORS} more failed", style="red")
    if out is not None:
        screen.print(f"run directory: {out}", markup=False, soft_wrap=True)
