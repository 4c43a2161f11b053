"""What commands share on the terminal: consoles, tables, progress and JSON files."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import typer
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stategate.stores import files
from stategate.stores.progress import Progress
from stategate.stores.text import printable


class PrintableConsole(Console):
    """Rich's console, but for text from outside that would steer the terminal."""

    def render(self, *args: Any, **extra: Any) -> Iterator[Segment]:
        """Yield what is printed."""
        for text, style, control in super().render(*args, **extra):
            yield Segment(text if control else printable(text), style, control)


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console for the terminal; 80 columns where there is none."""
    return PrintableConsole(stderr=stderr, quiet=quiet, highlight=False, emoji=False)


def say(text: str, style: str = "", *, stderr: bool = False) -> None:
    """Print a line as it is: no markup is read out of it, and it is not folded."""
    console(stderr=stderr).print(text, style=style, markup=False, soft_wrap=True)


def heading(out: Console, title: str) -> None:
    """Print a rule with a title."""
    out.print()
    out.rule(Text(title, "bold"), align="left", style="dim")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table without borders: texts as they are, numbers to the right."""
    grid = Table(*head, box=None, pad_edge=False, show_header=any(head))
    for row in rows:
        grid.add_row(*map(_cell, row))
    return grid


def _cell(value: object) -> Text:
    if isinstance(value, int | float):
        return Text(f"{value:,}" if isinstance(value, int) else f"{value:.2f}", justify="right")
    return value if isinstance(value, Text) else Text(str(value))


def working(what: str) -> AbstractContextManager[object]:
    """Say on standard error that ``what`` goes on: at once on a terminal, elsewhere now and then."""
    if not sys.stderr.isatty():
        return Progress(what=what)
    say(f"{what} …", "dim", stderr=True)
    return nullcontext()


def waiting(what: str) -> AbstractContextManager[object]:
    """Do as :func:`working` does, but for the line on a terminal: it goes when ``what`` has ended."""
    screen = console(stderr=True)
    return screen.status(f"{what} …") if screen.is_terminal else Progress(what=what)


@contextmanager
def stoppable(how: str) -> Iterator[None]:
    """Tell on Ctrl-C how to go on, and end with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Abort(how) from None


def wrote(target: str | None, value: object) -> bool:
    """Write ``value`` where ``--json`` asks for it, whole or not at all; says whether it does."""
    if target == "-":
        typer.echo(json.dumps(files.json_safe(value), indent=2))
    elif target is not None:
        files.write_json(target, value, indent=2)
    return target is not None
