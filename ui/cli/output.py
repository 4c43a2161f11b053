"""What commands share for output: consoles, JSON files, and examples in their help."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stores import files
from stores.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console


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
    if target == "-":
        typer.echo(json.dumps(value, indent=2))
        return
    files.write_json(target, value, indent=2)
