"""``stategate traces``: look at recorded episodes and export them."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stategate.stores.errors import UserError
from stategate.stores.settings import JsonFile, Settings, argument, option
from stategate.ui.cli.output import console, say, wrote
from stategate.ui.cli.settings_command import command, command_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stategate.stores.traces import ContextPiece
    from stategate.stores.traces.store import TraceStore

app = command_group(
    "Look at recorded episodes (every event of every episode) and export them.",
    "stategate traces list --min-reward 1",
    "stategate traces export all.jsonl",
)
_BEST, _ID = 5, 10  # pieces of a context that a line names, and characters of their ids


class TraceSettings(Settings):
    """Which database."""

    db: Path | None = option(None, "The database; $STATEGATE_HOME/traces.sqlite.", metavar="FILE")

    def open(self) -> "TraceStore":
        """Open it; one that was named must be there, or a slip would look like no episodes."""
        from stategate.stores.home import home
        from stategate.stores.traces.store import TraceStore

        if self.db is not None and not self.db.expanduser().is_file():
            raise UserError(f"no trace database '{self.db}': the default one needs no --db")
        return TraceStore(self.db or home() / "traces.sqlite")


class ListSettings(TraceSettings):
    """Which episodes."""

    min_reward: float | None = option(None, "Only episodes with at least this.")
    env: str | None = option(None, "Only episodes in this world.")
    limit: int = option(20, "The newest so many.", ge=1)
    json_target: JsonFile = None


class ShowSettings(TraceSettings):
    """Which episode."""

    episode: str = argument(..., "An episode id, or the beginning of one.")
    json_target: JsonFile = None


class ExportSettings(TraceSettings):
    """Which episodes, and where they go."""

    target: Path = argument(..., "The JSONL file to write.")
    episode: tuple[str, ...] = option((), "Only this episode; repeatable; else all.")


@command(app, "stategate traces list --min-reward 1 --json -", name="list")
def list_traces(settings: ListSettings) -> None:
    """List recorded episodes, newest first."""
    import time

    from rich.table import Table
    from rich.text import Text

    from stategate.ui.actions import task_in_words

    wanted = settings.model_dump(include={"min_reward", "env", "limit"})
    episodes = settings.open().episodes(**wanted)
    if wrote(settings.json_target, episodes):
        return
    if not episodes:
        say("no episodes are recorded yet: stategate run demo --goal 3")
        return
    table = Table("when", "reward", "steps", "task", "episode", box=None, pad_edge=False)
    for row in episodes:
        reward = f"{row['reward']:.2f}" if row["done"] and row["reward"] is not None else "–"
        when = time.strftime("%m-%d %H:%M", time.localtime(row["started"]))
        told = (when, reward, str(row["steps"]), Text(task_in_words(row["task"])))
        table.add_row(*told, row["episode_id"], style="" if row["done"] else "dim")
    console().print(table)


@command(app, "stategate traces show run-20260301-101500-ab12cd")
def show(settings: ShowSettings) -> None:
    """Show the events of one episode, and what its contexts were made of."""
    from rich.text import Text

    store = settings.open()
    row = _find(store, settings.episode)
    if wrote(settings.json_target, store.exported(row)):
        return
    contexts = _contexts(store.pieces(row["episode_id"]))
    out = console()
    out.print(Text(row["episode_id"], "bold cyan"))
    out.print(Text(row["instruction"] or "", "bold"))
    styles = {"ACT": "bold green", "ERROR": "bold red", "REWARD": "bold yellow"}
    for event in store.events(row["episode_id"]):
        if event.kind == "ACT" and event.t in contexts:
            out.print(Text(f"{event.t + 1:>3} context {contexts[event.t]}", "dim"))
        text = " ".join(event.text.split())
        text = text if len(text) <= 200 or event.kind != "OBS" else text[:199] + "…"
        head = f"{event.t + 1:>3} {event.kind:<7}"
        out.print(Text.assemble((head, "dim"), (text, styles.get(event.kind, ""))))


@command(app, "stategate traces export one.jsonl --episode run-20260301")
def export(settings: ExportSettings) -> None:
    """Write episodes to JSONL, one a line, whole or not at all."""
    store = settings.open()
    wanted = [_find(store, name)["episode_id"] for name in settings.episode]
    count = store.export_jsonl(settings.target, wanted or None)
    say(f"{count} episodes in {settings.target}")


def _contexts(pieces: "Sequence[ContextPiece]") -> dict[int, str]:
    """Return a line a step: tokens shown of tokens there were, and the best scored pieces."""
    lines: dict[int, str] = {}
    for step, group in groupby(pieces, key=lambda piece: piece.t):
        own = list(group)
        shown, whole = sum(p.tokens_after for p in own), sum(p.tokens_before for p in own)
        scored = sorted(((p.score, p.id) for p in own if p.score is not None), reverse=True)
        best = ", ".join(f"{name[:_ID]} {score:.2f}" for score, name in scored[:_BEST])
        lines[step] = f"{shown} of {whole} tokens" + (f"; {best}" if best else "")
    return lines


def _find(store: "TraceStore", name: str) -> dict[str, Any]:
    matches = [row for row in store.episodes() if row["episode_id"].startswith(name)]
    matches = [row for row in matches if row["episode_id"] == name] or matches
    if not matches:
        raise UserError(f"no episode '{name}': see stategate traces list")
    if len(matches) > 1:
        raise UserError(f"{len(matches)} episodes begin with '{name}': give more of the id")
    return matches[0]
