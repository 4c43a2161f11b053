"""``stategate checkpoints``: what threads remember, and forgetting the old of it."""

from typing import Annotated, Any

from stategate.ui.cli.output import command, command_group, opt, say

checkpoints_app = command_group(
    "Look at the checkpoints of threads, and remove what is not needed to go on.",
    "stategate checkpoints list",
    "stategate checkpoints prune --keep 1 --days 30",
)
_Where = Annotated[
    str | None, opt("File or PostgreSQL URL; this machine's by default.", metavar="FILE|URL")
]


@command(checkpoints_app, "stategate checkpoints list --limit 20", name="list")
def list_threads(
    where: _Where = None,
    limit: Annotated[int, opt("Threads to show.", min=1)] = 50,
) -> None:
    """Show each thread's checkpoints: how many, how large, since when."""
    import time

    from stategate.graph.retention import threads

    found = threads(_saver(where))
    for thread in found[:limit]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(thread.written))
        say(f"{when}  {thread.checkpoints:>6}  {thread.size / 1000:>9.1f} kB  {thread.thread_id}")
    total = sum(thread.size for thread in found)
    say(f"{len(found)} threads, {total / 1e6:.1f} MB")


@command(checkpoints_app, "stategate checkpoints prune --thread monday --keep 5")
def prune(
    where: _Where = None,
    keep: Annotated[int, opt("Checkpoints that each thread keeps.", min=1)] = 1,
    days: Annotated[
        float | None, opt("Threads without a newer checkpoint go whole.", min=0)
    ] = None,
    thread: Annotated[list[str] | None, opt("Just these threads; repeatable.")] = None,
) -> None:
    """Remove checkpoints that are not needed to go on: one cannot go back to their steps any more."""
    from stategate.graph.retention import prune as prune_checkpoints

    age = None if days is None else days * 86_400
    gone, whole = prune_checkpoints(_saver(where), keep, age, tuple(thread or ()))
    say(f"{gone} checkpoints are gone, {whole} threads with all of theirs")


def _saver(where: str | None) -> Any:
    from stategate.graph.checkpoints import open_saver
    from stategate.stores.home import home

    return open_saver(where or str(home() / "checkpoints.sqlite"))
