"""``stategate bank`` and ``checkpoints``: banks of experience; old checkpoints."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from stategate.graph import checkpoints
from stategate.graph.config import load_config
from stategate.nodes.resources import Resources
from stategate.stores.bank import bank_place
from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.stores.settings import ConfigName, Overrides, Settings, argument, option
from stategate.stores.sql import require_file
from stategate.stores.text import plural
from stategate.trainers.bank import build_bank, read_episodes
from stategate.ui.cli.output import say, working
from stategate.ui.cli.settings_command import command, command_group

_TOLD = 5  # problems of a bank that are printed

checkpoints_app = command_group(
    "Tend the checkpoints of threads.",
    "stategate checkpoints prune --days 30",
)
bank_app = command_group(
    "Make banks of experience.",
    "stategate bank build runs/p.sqlite --include-incorrect",
    "stategate run webshop-experience --goal 3 --set context.bank=state",
)


class PruneSettings(Settings):
    """What is kept, and of which threads."""

    where: str | None = option(None, "Another file or PostgreSQL URL.", metavar="FILE|URL")
    days: float | None = option(None, "Threads without a newer checkpoint go whole.", ge=0)
    thread: tuple[str, ...] = option((), "Just these threads; repeatable.")


@command("stategate checkpoints prune --thread monday", group=checkpoints_app)
def prune(settings: PruneSettings) -> None:
    """Keep the newest checkpoint of each thread: one cannot go back to earlier steps any more."""
    age = None if settings.days is None else settings.days * 86_400
    require_file(settings.where, "database of checkpoints", "--where", "checkpoints")
    saver = checkpoints.open_saver(settings.where or str(home() / "checkpoints.sqlite"))
    whole = checkpoints.prune(saver, age, settings.thread)
    say(f"the newest checkpoint of each thread is left; {plural(whole, 'old thread')} went whole")


class BuildSettings(Settings):
    """Of which episodes which bank is made, and how."""

    traces: tuple[Path, ...] = argument(..., "Trace databases, JSONL files, or folders.")
    out: str | None = option(None, "Goes on if it is there.", metavar="NAME|FOLDER")
    kind: Literal["state", "trace"] = option("state", "Advice a step, or a task.")
    include_incorrect: bool = option(False, "Failed episodes too, with blame.")
    trust: float = option(
        1.0, "Of who made them: 1 is yourself; advice needs 0.5 or more.", ge=0, le=1
    )
    config: ConfigName = "webshop"
    overrides: Overrides = ()


@command("stategate bank build runs/p.sqlite --include-incorrect", group=bank_app)
def build(settings: BuildSettings) -> None:
    """Build a bank from recorded episodes; run it again after a kill and it goes on."""
    with working("reading the episodes"):
        episodes, problems = read_episodes(
            settings.traces, settings.include_incorrect, settings.trust
        )
    _tell_problems(problems, "not read")
    if not episodes:
        named = ", ".join(map(str, settings.traces))
        fix = "give other traces, or --include-incorrect"
        raise UserError(f"no episode to learn from in {named}: {fix}")
    place = str(bank_place(settings.out, settings.kind))
    config = load_config(settings.config, settings.overrides)
    resources = Resources(config.llm, config.embedder, env=config.env)
    with working("building the bank"):
        built = build_bank(settings.kind, place, episodes, resources)
    there = f", {built.skipped} already there" if built.skipped else ""
    say(f"{plural(built.rows, 'row')} from {plural(built.read, 'episode')} in {place}{there}")
    _tell_problems(built.problems, "not added")


def _tell_problems(problems: Sequence[str], what: str) -> None:
    for line in problems[:_TOLD]:
        say(f"{what}: {line}", "yellow", stderr=True)
    if len(problems) > _TOLD:
        say(f"… and {len(problems) - _TOLD} more", "yellow", stderr=True)
