"""``stategate checkpoints``: what threads remember, and forgetting the old of it."""

from typing import Any

from stategate.stores.settings import Settings, option
from stategate.ui.cli.output import say
from stategate.ui.cli.settings_command import command, command_group

app = command_group(
    "Look at the checkpoints of threads, and remove what is not needed to go on.",
    "stategate checkpoints list",
    "stategate checkpoints prune --days 30",
)


class ListSettings(Settings):
    """Whose checkpoints."""

    where: str | None = option(
        None, "File or PostgreSQL URL; this machine's by default.", metavar="FILE|URL"
    )
    limit: int = option(50, "Threads to show.", ge=1)


class PruneSettings(Settings):
    """What is kept, and of which threads."""

    where: str | None = option(
        None, "File or PostgreSQL URL; this machine's by default.", metavar="FILE|URL"
    )
    days: float | None = option(None, "Threads without a newer checkpoint go whole.", ge=0)
    thread: tuple[str, ...] = option((), "Just these threads; repeatable.")


@command(app, "stategate checkpoints list --limit 20", name="list")
def list_threads(settings: ListSettings) -> None:
    """Show each thread's checkpoints: how many, and since when."""
    import time

    from stategate.graph.checkpoints import threads

    found = threads(_saver(settings.where))
    for thread in found[: settings.limit]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(thread.written))
        say(f"{when}  {thread.checkpoints:>6}  {thread.thread_id}")
    say(f"{len(found)} threads")


@command(app, "stategate checkpoints prune --thread monday")
def prune(settings: PruneSettings) -> None:
    """Keep the newest checkpoint of each thread: one cannot go back to earlier steps any more."""
    from stategate.graph.checkpoints import prune as prune_checkpoints

    age = None if settings.days is None else settings.days * 86_400
    saver = _saver(settings.where)
    gone, whole = prune_checkpoints(saver, age, settings.thread)
    say(f"{gone} checkpoints are gone, {whole} threads with all of theirs")


def _saver(where: str | None) -> Any:
    from stategate.graph.checkpoints import open_saver
    from stategate.stores.home import home

    return open_saver(where or str(home() / "checkpoints.sqlite"))
