"""``stategate traces``: recorded episodes; ``stategate checkpoints``: what threads can go on from."""

from pathlib import Path

from stategate.graph import checkpoints
from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.stores.settings import Settings, argument, option
from stategate.stores.traces.store import TraceStore
from stategate.ui.cli.output import say
from stategate.ui.cli.settings_command import command, command_group

app = command_group(
    "Export recorded episodes: every event of every episode.",
    "stategate traces export all.jsonl",
)
checkpoints_app = command_group(
    "Tend the checkpoints of threads.",
    "stategate checkpoints prune --days 30",
)


class ExportSettings(Settings):
    """Which database, and where its episodes go."""

    target: Path = argument(..., "The JSONL file to write.")
    db: Path | None = option(None, "The database; $STATEGATE_HOME/traces.sqlite.", metavar="FILE")


@command(app, "stategate traces export all.jsonl")
def export(settings: ExportSettings) -> None:
    """Write every episode to JSONL, one a line, whole or not at all."""
    # A database that is named must be there, or a slip would look like no episodes.
    if settings.db is not None and not settings.db.expanduser().is_file():
        raise UserError(f"no trace database '{settings.db}': the default one needs no --db")
    count = TraceStore(settings.db or home() / "traces.sqlite").export_jsonl(settings.target)
    say(f"{count} episodes in {settings.target}")


class PruneSettings(Settings):
    """What is kept, and of which threads."""

    where: str | None = option(None, "Another file or PostgreSQL URL.", metavar="FILE|URL")
    days: float | None = option(None, "Threads without a newer checkpoint go whole.", ge=0)
    thread: tuple[str, ...] = option((), "Just these threads; repeatable.")


@command(checkpoints_app, "stategate checkpoints prune --thread monday")
def prune(settings: PruneSettings) -> None:
    """Keep the newest checkpoint of each thread: one cannot go back to earlier steps any more."""
    age = None if settings.days is None else settings.days * 86_400
    saver = checkpoints.open_saver(settings.where or str(home() / "checkpoints.sqlite"))
    gone, whole = checkpoints.prune(saver, age, settings.thread)
    say(f"{gone} checkpoints are gone, {whole} threads with all of theirs")
