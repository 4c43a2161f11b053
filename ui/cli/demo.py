"""``stategate demo``: one task through several memories at the same budget, and where they part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.console import Console

from stategate.evals.worlds import task_at
from stategate.graph.build import Graph, build_graph
from stategate.graph.config import Config, load_config
from stategate.graph.session import Session
from stategate.nodes.protocols import StepRecord
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError
from stategate.stores.home import new_thread
from stategate.stores.settings import CommaList, ConfigName, Overrides, Settings, option
from stategate.stores.text import plural
from stategate.ui.actions import short, who_plays
from stategate.ui.cli import output
from stategate.ui.cli.output import heading, say
from stategate.ui.cli.run import page_lines
from stategate.ui.cli.settings_command import command

_TASKS = 30  # that are tried until the memories end differently
_LINES = 12  # of a prompt that are shown


class DemoSettings(Settings):
    """Which task, with which memories."""

    goal: int | None = option(None, "Play this task instead of looking for one.", ge=0)
    budget: int | None = option(None, "Tokens a step; else the config's.", ge=1)
    builders: CommaList = option(("full", "window", "compress"), "The memories, by commas.")
    config: ConfigName = "alfworld"
    overrides: Overrides = ()


@dataclass(frozen=True)
class Play:
    """One task played to its end with one memory, and its row of the table."""

    session: Session
    steps: list[StepRecord]
    row: dict[str, Any]

    @property
    def actions(self) -> list[str]:
        """The actions, in order."""
        return [step.decision.action for step in self.steps]


@command("stategate demo", "stategate demo --config webshop --budget 150 --builders full,compress")
def demo(settings: DemoSettings) -> None:
    """Play one task with several memories at the same budget, and show where they part.

    The task is the first of the world's whose endings differ in reward, whichever memory ends better.
    """
    kinds = settings.builders
    if len(kinds) < 2:
        raise UserError("name two memories or more: --builders full,compress")
    config = load_config(settings.config, settings.overrides)
    budget = settings.budget or config.context.budget
    contexts = [{"kind": kind, "budget": budget} for kind in kinds]
    for context in contexts:
        registry().parse("context", context)
    graph = build_graph(config)
    tasks = graph.agent.world.tasks()
    first = settings.goal or 0
    task_at(tasks, first)  # one that is not there is refused before anything is printed
    out = output.console()
    say(f"World: {config.env.kind}, {config.env.hint()}.")
    say(f"Who plays: {who_plays(config.actor)}.")
    for context in contexts:
        say(f"Memory {context['kind']}: {registry().parse('context', context).hint()}.")
    count = min(_TASKS, len(tasks)) if settings.goal is None else 1
    for number in range(first, first + count):
        with output.working(f"playing task {number} with {len(kinds)} memories"):
            plays = [play(graph, context, task_at(tasks, number)) for context in contexts]
        if len({one.row["reward"] for one in plays}) > 1:
            break
    show(out, plays, config, number, is_chosen=settings.goal is None)


def play(graph: Graph, context: dict[str, Any], task: Mapping[str, Any]) -> Play:
    """Play ``task`` to its end with the context builder ``context``."""
    session = Session(graph, new_thread("demo"), task=task, context=context)
    steps = session.run()
    tokens = sum(step.tokens for step in steps)
    row = {
        "memory": context["kind"],
        "reward": float(session.values["reward"]),
        "steps": len(steps),
        "tokens": tokens,
        "tokens a step": round(tokens / max(len(steps), 1)),
        "commands lost": sum(len(step.context.dropped_actions) for step in steps),
    }
    return Play(session, steps, row)


def parting(plays: Sequence[Play]) -> tuple[Play, int | None]:
    """Return the best play, and the step at which the worst one leaves it (None: it never does).

    Until then the world went through the same pages, so it is one moment for both.
    """
    best = max(plays, key=lambda play: play.row["reward"])
    others = [play for play in plays if play.actions != best.actions]
    if not others:
        return best, None
    worst = min(others, key=lambda play: play.row["reward"])
    pairs = zip_longest(best.actions, worst.actions)
    return best, next(at for at, (one, other) in enumerate(pairs) if one != other)


def show(out: Console, plays: Sequence[Play], config: Config, number: int, is_chosen: bool) -> None:
    """Print the task, the moment at which the memories part, the table, and what comes next."""
    session = plays[0].session
    heading(out, f"task {number}")
    say(session.agent.world.instruction(session.values["session"]))
    if is_chosen and len({play.row["reward"] for play in plays}) > 1:
        out.print("(the first task that does not end the same with every memory)", style="dim")
    owner, at = parting(plays)
    if at is None:
        out.print("All of them did the same at every step.")
    else:
        _moment(out, plays, owner, at)
    heading(out, "how each ended")
    out.print(output.table(list(plays[0].row), [list(play.row.values()) for play in plays]))
    if capped := [play.row["memory"] for play in plays if not play.session.values["done"]]:
        out.print(f"stopped after {config.max_steps} steps: {', '.join(capped)}", style="dim")
    out.print("commands lost: those on the page that the player could not read, summed over steps")
    heading(out, "next")
    kinds = ",".join(play.row["memory"] for play in plays)
    say("stategate ui", "bold")
    say("  see it: any moment through any memories, in your browser", "dim")
    worlds = f"stategate eval worlds --config {config.env.kind} --agents {kinds}"
    say(f"{worlds} --out runs/1", "bold")
    say("  is it luck?", "dim")


def _moment(out: Console, plays: Sequence[Play], owner: Play, at: int) -> None:
    """Print one moment of ``owner``: the page, then what each memory shows of it, and what follows."""
    heading(out, f"step {at + 1}: the same page through each memory")
    view = owner.session.agent.resources.profile.view
    done = [f"{step.step + 1}. {step.decision.action}" for step in owner.steps[:at]]
    say("before:   " + (", ".join(done[-3:]) or "nothing"), "dim")
    say("the page: " + "\n          ".join(page_lines(view, owner.steps[at].observation)))
    for play in plays:
        seen = owner.session.look(play.session.overrides, at)
        heading(out, play.row["memory"])
        lines = [line for line in seen.context.text.splitlines() if line.strip()]
        for line in lines[:_LINES]:
            say(f"  │ {short(line, 74)}")
        if len(lines) > _LINES:
            say(f"  │ … and {plural(len(lines) - _LINES, 'more line')}", "dim")
        lost = len(seen.context.dropped_actions)
        missing = f", {lost} commands of the page missing" if lost else ""
        does = seen.decision.action if seen.decision else "nothing"
        say(f"reads {seen.context.tokens:,} tokens{missing}; does {does}", "bold green")
