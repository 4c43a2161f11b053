"""``stategate traces``: recorded episodes; ``stategate checkpoints``: what threads can go on from."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.stores.settings import JsonFile, Settings, argument, option
from stategate.ui.actions import task_in_words
from stategate.ui.cli.output import console, say, table, wrote
from stategate.ui.cli.settings_command import command, command_group

if TYPE_CHECKING:
    from stategate.stores.traces.store import TraceStore

app = command_group(
    "Look at recorded episodes (every event of every episode) and export them.",
    "stategate traces list",
    "stategate traces export all.jsonl",
)
checkpoints_app = command_group(
    "Tend the checkpoints of threads.",
    "stategate checkpoints prune --days 30",
)


class TraceSettings(Settings):
    """Which database."""

    db: Path | None = option(None, "The database; $STATEGATE_HOME/traces.sqlite.", metavar="FILE")

    def open(self) -> "TraceStore":
        """Open it; one that was named must be there, or a slip would look like no episodes."""
        from stategate.stores.traces.store import TraceStore

        if self.db is not None and not self.db.expanduser().is_file():
            raise UserError(f"no trace database '{self.db}': the default one needs no --db")
        return TraceStore(self.db or home() / "traces.sqlite")


class ListSettings(TraceSettings):
    """Which episodes."""

    limit: int = option(20, "The newest so many.", ge=1)
    json_target: JsonFile = None


class ExportSettings(TraceSettings):
    """Which episodes, and where they go."""

    target: Path = argument(..., "The JSONL file to write.")
    episode: tuple[str, ...] = option((), "Only this episode; repeatable; else all.")


@command(app, "stategate traces list --json -", name="list")
def list_traces(settings: ListSettings) -> None:
    """List recorded episodes, newest first."""
    episodes = settings.open().episodes(limit=settings.limit)
    if wrote(settings.json_target, episodes):
        return
    if not episodes:
        say("no episodes are recorded yet: stategate run demo --goal 3")
        return
    rows = []
    for row in episodes:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["started"]))
        is_scored = row["done"] and row["reward"] is not None
        about = (task_in_words(row["task"]), row["episode_id"])
        rows.append((when, row["reward"] if is_scored else "–", row["steps"], *about))
    console().print(table(("when", "reward", "steps", "task", "episode"), rows))


@command(app, "stategate traces export one.jsonl --episode run-20260301")
def export(settings: ExportSettings) -> None:
    """Write episodes to JSONL, one a line, whole or not at all."""
    store = settings.open()
    ids = [_find(store, name)["episode_id"] for name in settings.episode]
    count = store.export_jsonl(settings.target, ids or None)
    say(f"{count} episodes in {settings.target}")


def _find(store: "TraceStore", name: str) -> dict[str, Any]:
    matches = [row for row in store.episodes() if row["episode_id"].startswith(name)]
    matches = [row for row in matches if row["episode_id"] == name] or matches
    if not matches:
        raise UserError(f"no episode '{name}': see stategate traces list")
    if len(matches) > 1:
        raise UserError(f"{len(matches)} episodes begin with '{name}': give more of the id")
    return matches[0]


class PruneSettings(Settings):
    """What is kept, and of which threads."""

    where: str | None = option(None, "Another file or PostgreSQL URL.", metavar="FILE|URL")
    days: float | None = option(None, "Threads without a newer checkpoint go whole.", ge=0)
    thread: tuple[str, ...] = option((), "Just these threads; repeatable.")


@command(checkpoints_app, "stategate checkpoints prune --thread monday")
def prune(settings: PruneSettings) -> None:
    """Keep the newest checkpoint of each thread: one cannot go back to earlier steps any more."""
    from stategate.graph.checkpoints import open_saver
    from stategate.graph.checkpoints import prune as prune_checkpoints

    age = None if settings.days is None else settings.days * 86_400
    saver = open_saver(settings.where or str(home() / "checkpoints.sqlite"))
    gone, whole = prune_checkpoints(saver, age, settings.thread)
    say(f"{gone} checkpoints are gone, {whole} threads with all of theirs")
