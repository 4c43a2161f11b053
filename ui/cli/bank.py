"""``stategate bank``: make banks of experience from recorded episodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from stategate.graph.config import load_config
from stategate.nodes.resources import Resources
from stategate.stores.bank import bank
from stategate.stores.errors import UserError
from stategate.stores.settings import (
    ConfigName,
    Limit,
    Overrides,
    Settings,
    argument,
    option,
)
from stategate.trainers.bank import build_state_bank, build_trace_bank, read_episodes
from stategate.ui.cli.output import say, working
from stategate.ui.cli.settings_command import command, command_group

app = command_group(
    "Make banks of experience.",
    "stategate bank build runs/p.sqlite --include-incorrect",
    "stategate run webshop-experience --goal 3 --set context.bank=state",
)


class BuildSettings(Settings):
    """Of which episodes which bank is made, and how."""

    traces: tuple[Path, ...] = argument(..., "Trace databases, JSONL files, or folders.")
    out: str | None = option(None, "Goes on if it is there.", metavar="NAME|FOLDER")
    kind: Literal["state", "trace"] = option("state", "Advice a step, or a task.")
    include_incorrect: bool = option(False, "Failed episodes too, with blame.")
    trust: float = option(
        1.0, "Of who made them: 1 is yourself; advice needs 0.5 or more.", ge=0, le=1
    )
    limit: Limit = None
    config: ConfigName = "webshop"
    overrides: Overrides = ()


@command(app, "stategate bank build runs/p.sqlite --include-incorrect")
def build(settings: BuildSettings) -> None:
    """Build a bank from recorded episodes; run it again after a kill and it goes on."""
    with working("reading the episodes"):
        read = read_episodes(settings.traces, settings.include_incorrect, settings.trust)
    episodes = read.episodes[: settings.limit]
    _tell_problems(read.problems, "not read")
    if not episodes:
        raise UserError("no episode to learn from: give other traces, or --include-incorrect")
    place = str(bank.bank_place(settings.out, settings.kind))
    config = load_config(settings.config, settings.overrides)
    resources = Resources(config.llm, config.embedder, env=config.env)
    make = build_trace_bank if settings.kind == "trace" else build_state_bank
    with working("building the bank"):
        built = make(place, episodes, resources)
    there = f", {built.skipped} were there already" if built.skipped else ""
    say(f"{built.rows} rows from {built.read} episodes in {place}{there}")
    _tell_problems(built.problems, "not added")


def _tell_problems(problems: Sequence[str], what: str) -> None:
    for line in problems[:5]:
        say(f"{what}: {line}", "yellow", stderr=True)
    if len(problems) > 5:
        say(f"… and {len(problems) - 5} more {what}", "yellow", stderr=True)
