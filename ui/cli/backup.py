"""``stategate backup`` and ``stategate restore``: all that is the user's, in one file."""

from typing import Annotated

import typer

from stategate.ui.cli.output import say

_File = Annotated[str, typer.Argument(metavar="FILE.tar.gz", show_default=False)]
BACKUP_EXAMPLES = ("stategate backup monday.tar.gz",)
RESTORE_EXAMPLES = ("STATEGATE_HOME=~/again stategate restore monday.tar.gz",)


def backup(file: _File) -> None:
    """Keep banks, memories, traces, corpora and checkpoints of this home in one file.

    With what is on the servers that STATEGATE_POSTGRES and STATEGATE_CHROMA name, if they are set.
    """
    from stategate.stores.backup import back_up

    files, size = back_up(file)
    say(f"{files} files, {size / 1e6:.1f} MB, in {file}")


def restore(file: _File) -> None:
    """Unpack a backup into an empty home, and into empty servers if it holds what was on some."""
    from stategate.stores.backup import restore as unpack
    from stategate.stores.home import home

    count = unpack(file)
    say(f"{count} files are in {home()}")
