"""``stategate demo``: one task through several memories at the same budget, and where they part."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from stategate.envs.protocols import playable
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import load_config
from stategate.graph.session import Session, StepResult
from stategate.nodes.registry import registry
from stategate.nodes.update_state import unpacked
from stategate.stores.errors import UserError
from stategate.stores.settings import (
    CommaList,
    ConfigName,
    JsonFile,
    Overrides,
    Settings,
    option,
)
from stategate.ui.cli import output
from stategate.ui.cli.output import heading
from stategate.ui.cli.run import task_of
from stategate.ui.cli.settings_command import command, single
from stategate.ui.cli.transcript import cut, kept_line, page_lines

app = single()
_TASKS = 30  # that are tried until the memories end differently
_LINES = 14  # of a prompt that are shown
_CAUTION = (
    "One task at one tight budget proves nothing, and with more room the order may turn (try --budget "
    "300): docs/results/ has success over 500 tasks, by budget."
)
_COLUMNS = ("kind", "reward", "steps", "tokens", "commands_lost", "tokens_lost")


class DemoSettings(Settings):
    """Which task, with which memories."""

    goal: int | None = option(None, "Play this task instead of looking for one.", ge=0)
    budget: int = option(150, "Tokens that each memory may show.", ge=1)
    builders: CommaList = option(("full", "query_rag", "compress"), "The memories, by commas.")
    config: ConfigName = "demo"
    overrides: Overrides = ()
    json_target: JsonFile = None


@dataclass(frozen=True)
class Play:
    """One task played to its end with one memory, and its row of the table."""

    session: Session
    steps: list[StepResult]
    row: dict[str, Any]


@command(
    app, "stategate demo", "stategate demo --goal 3 --budget 300 --builders full,window,compress"
)
def demo(settings: DemoSettings) -> None:
    """Play one task with several memories at the same budget, and show where they part.

    The task is the first of the world's whose endings differ in reward, whoever does better.
    """
    goal, budget, kinds = settings.goal, settings.budget, settings.builders
    if len(kinds) < 2:
        raise UserError("name two memories or more: --builders full,compress")
    config = load_config(settings.config, settings.overrides)
    for kind in kinds:
        registry().parse("context", {"kind": kind, "budget": budget})
    out = output.console(stderr=settings.json_target == "-")
    out.print(f"The same task with {', '.join(kinds)}: {budget} tokens a step for each.")
    graph = build_graph(config)
    world = graph.agent.world
    tried = [goal] if goal is not None else range(max(min(_TASKS, len(playable(world).tasks())), 1))
    for number in tried:
        task = task_of(world, number, ())
        plays = [play(graph, {"kind": kind, "budget": budget}, task) for kind in kinds]
        rewards = {one.row["reward"] for one in plays}
        if goal is not None or len(rewards) > 1:
            break
        out.print(f"task {number}: all end with reward {rewards.pop():.2f}; the next", style="dim")
    show(out, plays, number, is_chosen=goal is None)
    if settings.json_target is not None:
        told = {"goal": number, "budget": budget, "parts_at": parting(plays)}
        memories = [one.row for one in plays]
        output.write_json(settings.json_target, {**told, "memories": memories})


def play(graph: Graph, context: dict[str, Any], task: dict[str, Any]) -> Play:
    """Play ``task`` to its end with the context builder ``context``."""
    session = Session(graph, f"demo-{uuid.uuid4().hex[:8]}", task=task, context=context)
    steps = session.run()
    pieces = [piece for step in steps for piece in step.context.pieces]
    row = {
        "kind": context["kind"],
        "reward": float(session.values["reward"]),
        "done": bool(session.values["done"]),
        "steps": len(steps),
        "tokens": sum(step.tokens for step in steps),
        "commands_lost": sum(len(step.context.dropped_actions) for step in steps),
        "tokens_lost": sum(max(p.tokens_before - p.tokens_after, 0) for p in pieces),
        "actions": [step.decision.action for step in steps],
    }
    return Play(session, steps, row)


def parting(plays: Sequence[Play]) -> int | None:
    """Return the first step at which not all did the same, None if all did the same throughout.

    Until then the world went through the same pages, so it is one moment for all of them.
    """
    taken = [play.row["actions"] for play in plays]
    for number in range(max(map(len, taken))):
        if len({tuple(actions[number : number + 1]) for actions in taken}) > 1:
            return number
    return None


def show(out: Console, plays: Sequence[Play], number: int, *, is_chosen: bool) -> None:
    """Print the task, the step where the memories part, how each ended, and the table."""
    session = plays[0].session
    heading(out, f"task {number}")
    _print(out, session.agent.world.instruction(session.values["session"]))
    if is_chosen:
        out.print("(the first task whose endings differ, whoever ends better)", style="dim")
    at = parting(plays)
    if at is None:
        out.print("All of them did the same at every step.")
    else:
        _moment(out, plays, at)
    heading(out, "how each ended")
    heads = [name.replace("_", " ") for name in _COLUMNS]
    rows = [[play.row[name] for name in _COLUMNS] for play in plays]
    out.print(output.table(heads, rows))
    if capped := [play.row["kind"] for play in plays if not play.row["done"]]:
        out.print(f"stopped at the step cap: {', '.join(capped)}", style="dim")
    out.print("lost: commands that the model could not read, and tokens of the pages, of all steps")
    out.print(_CAUTION, style="dim")
    out.print("see it: make ui", style="bold")


def _moment(out: Console, plays: Sequence[Play], at: int) -> None:
    """Print one moment: page and state, then what each memory showed of it, lost, and did.

    Memories that showed the same are printed together.
    """
    owner = next(play for play in plays if at < len(play.steps))
    heading(out, f"step {at + 1}: they part{f' (after {at} equal steps)' if at else ''}")
    for past in owner.steps[:at]:
        _print(out, f"  {past.step + 1}. {past.decision.action}", "dim")
    view = owner.session.agent.resources.view
    _print(out, "the page: " + "\n          ".join(page_lines(view, owner.steps[at].observation)))
    if words := state_in_words(owner.session, at):
        _print(out, f"the state: {words}")
    reads: dict[str, list[Play]] = {}
    for play in plays:
        if at < len(play.steps):
            reads.setdefault(play.steps[at].context.text, []).append(play)
    for text, readers in reads.items():
        heading(out, " and ".join(play.row["kind"] for play in readers))
        lines = [line for line in text.splitlines() if line.strip()]
        for line in lines[:_LINES]:
            _print(out, f"  │ {cut(line, 74)}")
        if len(lines) > _LINES:
            _print(out, f"  │ … and {len(lines) - _LINES} more lines", "dim")
        _print(out, f"read  {kept_line(readers[0].steps[at].context)}")
        for play in readers:
            who = f"{play.row['kind']} " if len(readers) > 1 else ""
            _print(out, f"{who}did   {play.steps[at].decision.action}", "bold green")


def state_in_words(session: Session, at: int) -> str:
    """Return the recurrent state at a step in words: its size, and what it foresees; "" if none."""
    updater: Any = session.agent.resources.updater
    moments = session.moments()
    vector = unpacked(moments[at].get("recurrent")) if at < len(moments) else None
    if updater is None or vector is None:
        return ""
    words = f"{vector.size:,} numbers, after any number of steps"
    if getattr(updater, "classes", None):
        likely = sorted(updater.predict(vector).items(), key=lambda pair: -pair[1])[:3]
        words += "; foresees " + ", ".join(f"{name} {100 * p:.0f} %" for name, p in likely)
    return words


def _print(out: Console, text: str, style: str = "") -> None:
    out.print(text, style=style, markup=False)
