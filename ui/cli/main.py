"""The ``stategate`` command.

Only typer is imported here: everything heavy is imported inside the command that needs it, so that
``stategate --help`` answers at once. A mistake of the caller's is one line on stderr and exit code 2.
"""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stategate.ui.cli import ask as cli_ask
from stategate.ui.cli import backup as cli_backup
from stategate.ui.cli import demo as cli_demo
from stategate.ui.cli import doctor as cli_doctor
from stategate.ui.cli import ingest as cli_ingest
from stategate.ui.cli import kinds as cli_kinds
from stategate.ui.cli import mcp as cli_mcp
from stategate.ui.cli import rank as cli_rank
from stategate.ui.cli import run as cli_run
from stategate.ui.cli import ui as cli_ui
from stategate.ui.cli.arguments import hide_passwords
from stategate.ui.cli.bank import bank_app
from stategate.ui.cli.checkpoints import checkpoints_app
from stategate.ui.cli.data import data_app
from stategate.ui.cli.eval import eval_app
from stategate.ui.cli.memory import memory_app
from stategate.ui.cli.output import command, examples
from stategate.ui.cli.traces import traces_app
from stategate.ui.cli.train import train_app


class Commands(TyperGroup):
    """A command group that tells errors in one line: ``stategate: ...``, exit code 2."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit with its code."""
        extra["standalone_mode"] = False
        code = 0
        try:
            code = super().main(*args, **extra) or 0
            sys.stdout.flush()
        except BrokenPipeError:
            _close_quietly()
            code = 141  # as a program that SIGPIPE ended
        except (KeyboardInterrupt, typer.Abort):
            typer.echo("stategate: stopped", err=True)
            code = 130
        except Exception as error:
            message = problem(error)
            code = 1 if message is None else 2
            typer.echo(_fault() if message is None else f"stategate: {message}", err=True)
        sys.exit(code)


def problem(error: BaseException) -> str | None:
    """Return a caller's mistake as one line, or None if ``error`` is a fault of the program."""
    from pydantic import ValidationError

    from stategate.stores.errors import UserError, missing_extra
    from stategate.stores.text import one_line, printable

    error = missing_extra(error) or error
    message = getattr(error, "format_message", None)  # a usage error of typer's
    if message is not None:
        return f"{printable(one_line(message()))} (see --help)"
    if isinstance(error, UserError):
        return printable(one_line(str(error)))
    if isinstance(error, OSError) and _is_of_home(error):
        why = f"cannot write '{error.filename}' ({error.strerror})"
        return f"{why}: set STATEGATE_HOME to a folder that you may write to"
    if isinstance(error, ValidationError):
        from stategate.nodes.registry import first_problem

        return printable(one_line(first_problem(error)))
    return None


def _fault() -> str:
    """Return the traceback of a fault of the program's, or a plug-in's: without secrets."""
    import traceback

    from stategate.stores.text import without_password

    return without_password(traceback.format_exc().rstrip())


def _is_of_home(error: OSError) -> bool:
    """Say whether a file of ours could not be written: a read-only or a full disk."""
    import errno
    from pathlib import Path

    from stategate.stores.errors import UserError
    from stategate.stores.home import cache, home

    refusals = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
    if error.errno not in refusals or not isinstance(error.filename, str | Path):
        return False
    try:
        return any(Path(error.filename).is_relative_to(place()) for place in (home, cache))
    except UserError:
        return False


def _close_quietly() -> None:
    """Point stdout nowhere, or the interpreter complains again about the closed pipe at exit."""
    import os

    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode="rich",
    epilog=examples("stategate demo", "stategate run demo", "stategate kinds", "stategate doctor"),
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"stategate {version('stategate')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def stategate(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Run an agent whose memory is a set of plug-in nodes, and measure which of them help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


command(app, *cli_demo.EXAMPLES)(cli_demo.demo)
command(app, *cli_run.EXAMPLES)(cli_run.run)
command(app, *cli_ask.ASK_EXAMPLES)(cli_ask.ask)
command(app, *cli_ask.CHAT_EXAMPLES)(cli_ask.chat)
command(app, *cli_ingest.EXAMPLES)(cli_ingest.ingest)
app.add_typer(memory_app, name="memory")
command(app, "stategate kinds context", "stategate kinds --json -")(cli_kinds.kinds)
app.add_typer(data_app, name="data")
app.add_typer(train_app, name="train")
app.add_typer(eval_app, name="eval")
app.add_typer(bank_app, name="bank")
app.add_typer(traces_app, name="traces")
app.add_typer(checkpoints_app, name="checkpoints")
command(app, *cli_backup.BACKUP_EXAMPLES)(cli_backup.backup)
command(app, *cli_backup.RESTORE_EXAMPLES)(cli_backup.restore)
command(app, *cli_rank.EXAMPLES)(cli_rank.rank)
command(app, *cli_ui.EXAMPLES)(cli_ui.ui)
command(app, *cli_mcp.EXAMPLES)(cli_mcp.mcp)
command(app, "stategate doctor --json -")(cli_doctor.doctor)


def main() -> None:
    """Run the command line (the console script's entry point)."""
    hide_passwords()
    app(prog_name="stategate")


if __name__ == "__main__":
    main()
