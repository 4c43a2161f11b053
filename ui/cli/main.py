"""The ``stategate`` command.

Each command is imported when it is called, so that ``stategate --help`` answers at once. A mistake
of the caller's is one line on stderr and exit code 2.
"""

import errno
import os
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from traceback import format_exc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

#: Name: module and app, and the line in the help. The first six are what one needs at first.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo:demo", "Play one task with several memories, and show where they part."),
    "ui": ("serve:ui", "Open the app in your browser: play, fork and compare."),
    "run": ("run:run", "Play an episode and show it step by step."),
    "ask": ("ask:ask", "Answer one question from documents and from memory."),
    "memory": ("memory:app", "Look into long-term memory: what is remembered of whom."),
    "eval": ("eval:eval_app", "Compare agents on the same tasks."),
    "chat": ("ask:chat", "Talk with the agent; --thread goes on later."),
    "ingest": ("ingest:ingest", "Read documents into a corpus and index them."),
    "rank": ("ask:rank", "Weigh documents for a question by the model's own gradient."),
    "kinds": ("kinds:kinds", "Show what can fill each slot: kinds and their parameters."),
    "data": ("train:data_app", "Fetch the data that worlds read."),
    "train": ("train:app", "Train a checkpoint; the same command goes on after a stop."),
    "replay": ("eval:replay_app", "Read recorded threads again under each context builder."),
    "bank": ("episodes:bank_app", "Make banks of experience."),
    "checkpoints": ("episodes:checkpoints_app", "Prune the checkpoints of threads."),
    "mcp": ("serve:mcp", "Serve memory and documents to other assistants."),
    "doctor": ("doctor:doctor", "Check whether everything is here that is needed."),
}
_FIRST = 6
_PANELS = ("Start here", "When you need them")

#: What a disk says that is full, or that this user may not write to.
_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


class Commands(TyperGroup):
    """The commands, each imported when it is called; errors are one line and exit code 2."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        stubs = {
            name: TyperCommand(name, help=about, rich_help_panel=_PANELS[number >= _FIRST])
            for number, (name, (_, about)) in enumerate(COMMANDS.items())
        }
        self.commands = {**stubs, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is called; the help needs none of them."""
        name = args[0] if args else ""
        if name in COMMANDS:
            module, _, app_name = COMMANDS[name][0].partition(":")
            command_app = getattr(import_module(f"stategate.ui.cli.{module}"), app_name)
            self.commands[name] = typer.main.get_command(command_app)
            self.commands[name].name = name
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C reaches :meth:`main`, where typer would end without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit with its code."""
        extra["standalone_mode"] = False
        # OpenAI's client warns of replies in parts, which are read all the same.
        warnings.filterwarnings("ignore", "Pydantic serializer warnings")
        code = 0
        try:
            code = super().main(*args, **extra) or 0
            sys.stdout.flush()
        except BrokenPipeError:
            # Stdout goes nowhere, or the interpreter complains of the closed pipe again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 141  # as a program that SIGPIPE ended
        except (KeyboardInterrupt, typer.Abort) as stop:
            how = f"; {stop}" if str(stop) else ""
            typer.echo(f"\nstategate: stopped{how}", err=True)
            code = 130
        except Exception as error:
            from stategate.stores.text import without_password

            message = problem(error)
            code = 1 if message is None else 2
            # A fault of the program's, or a plug-in's: its traceback tells no secrets.
            report = f"stategate: {message}" if message else without_password(format_exc().rstrip())
            typer.echo(report, err=True)
        sys.exit(code)


def problem(error: BaseException) -> str | None:
    """Return a caller's mistake as one line, or None if ``error`` is a fault of the program."""
    from pydantic import ValidationError

    from stategate.nodes.registry import first_problem
    from stategate.stores.errors import UserError, missing_extra
    from stategate.stores.text import one_line, printable

    error = missing_extra(error) or error
    if hasattr(error, "format_message"):
        usage: Any = error  # of typer's
        line = usage.format_message().replace("Value error, ", "").rstrip(".")
        fix = f" (see {usage.ctx.command_path if usage.ctx else 'stategate'} --help)"
        if getattr(error, "option_name", "")[1:2].isdigit():
            fix = ": text that begins with a dash comes last, after --"
        return printable(one_line(f"{line}{fix}"))
    if isinstance(error, UserError):
        return printable(one_line(str(error)))
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        why = printable(f"cannot write '{error.filename}' ({error.strerror})")
        return f"{why}: set STATEGATE_HOME to a folder that you may write to"
    if isinstance(error, ValidationError):
        return printable(one_line(first_problem(error)))
    return None


def examples(*lines: str) -> str:
    """Return a help epilog that shows ``lines`` as examples, one a line."""
    plain = (line.replace("[", "\\[") for line in lines)  # no rich markup
    return "\n".join(["[bold]Examples[/bold]", *(f"  {line}" for line in plain)])


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode="rich",
    epilog=examples("stategate demo", "stategate ui", 'stategate ask "Why does a brinicle grow?"'),
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def stategate(
    context: typer.Context,
    is_version_asked: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Run an agent whose memory is a set of plug-in nodes, and measure which of them help."""
    if is_version_asked:
        typer.echo(f"stategate {version('stategate')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line (the console script's entry point)."""
    app(prog_name="stategate")
