"""What commands share: flags, examples in help, consoles, JSON files, bars."""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from stategate.stores import files
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

#: What a transcript shows of each step.
Show = Literal["page", "context", "none"]
#: Seconds of silence before a command without a terminal says that it works.
_PATIENCE = 2.0
_BAR = 14  # blocks of the longest bar


def crew_of(workers: int, ray: str | None, deadline: float = 3600.0) -> Any:
    """Return who shares the work, None where nobody does: on a cluster one worker is one, too."""
    from stategate.stores.workers import Crew

    return Crew(workers, ray, deadline) if workers > 1 or ray is not None else None


@cache
def _consoles() -> "type[Console]":
    """Return rich's console, but for text from outside that would steer the terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class Printable(Console):
        def render(self, *args: Any, **extra: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*args, **extra):
                yield Segment(text if control else printable(text), style, control)

    return Printable


def console(*, stderr: bool = False) -> "Console":
    """Return a console for the terminal; 80 columns where there is none."""
    Console = _consoles()  # noqa: N806 - a class
    plain = Console(stderr=stderr, highlight=False)
    if plain.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return plain
    return Console(stderr=stderr, highlight=False, width=80)


def say(text: str, style: str = "", *, stderr: bool = False) -> None:
    """Print a line as it is: no markup is read out of it, and it is not folded."""
    console(stderr=stderr).print(text, style=style, markup=False, soft_wrap=True)


@contextmanager
def working(what: str, every: float = 30.0) -> Iterator[None]:
    """Tell on standard error that ``what`` goes on: at once on a terminal, elsewhere after two seconds.

    Bars of their own go on beside it; where there is no terminal, and so no bar, a line comes now and
    then.
    """
    ended = threading.Event()
    is_terminal = sys.stderr.isatty()
    started = time.monotonic()

    def tell() -> None:
        wait = _PATIENCE
        while not ended.wait(wait):
            sys.stderr.write(f"stategate: {what}, {time.monotonic() - started:.0f} s so far\n")
            wait = every

    if is_terminal:
        say(f"{what} …", "dim", stderr=True)
    else:
        threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def check_target(target: str | None) -> None:
    """Refuse a JSON file that cannot be written, before the work whose result it is to hold."""
    if target is None or target == "-":
        return
    path = Path(target).expanduser()
    if path.is_dir():
        raise UserError(f"cannot write '{target}': it is a folder, name a file")
    with user_error_context(f"cannot write '{target}'", "name another file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_json(target: str, value: Any) -> None:
    """Write ``value`` to a file, whole or not at all, or to stdout if ``target`` is ``-``."""
    if target == "-":
        typer.echo(json.dumps(files.json_safe(value), indent=2))
    else:
        files.write_json(target, value, indent=2)


def wrote(target: str | None, value: Any) -> bool:
    """Write ``value`` where ``--json`` asks for it; says whether it does."""
    if target is not None:
        write_json(target, value)
    return target is not None


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
