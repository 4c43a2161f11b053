"""``stategate demo``: one task through several memories at the same budget, and where they part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from stategate.ui.cli.settings_command import command, single

if TYPE_CHECKING:
    from rich.console import Console

    from stategate.envs.protocols import View
    from stategate.graph.build import Graph
    from stategate.graph.session import Session, StepResult

app = single()
#: Tasks that are tried until the memories end differently.
_TASKS = 30
_LINES = 14  # of a prompt that are shown


@dataclass(frozen=True)
class Play:
    """One task played to its end with one memory. ``steps`` hold what was read at each step."""

    kind: str
    session: "Session"
    steps: "list[StepResult]"

    @property
    def reward(self) -> float:
        """The episode's reward."""
        return float(self.session.values["reward"])

    @property
    def tokens(self) -> int:
        """Tokens of context read over all steps."""
        return sum(step.tokens for step in self.steps)

    @property
    def commands_lost(self) -> int:
        """Commands that the model could not read, summed over the steps."""
        return sum(len(step.context.dropped_actions) for step in self.steps)

    @property
    def tokens_cut(self) -> int:
        """Tokens of the pages that were left out, summed over the steps."""
        return sum(tokens_cut(step) for step in self.steps)


class DemoSettings(Settings):
    """Which task, with which memories."""

    goal: int | None = option(None, "Play this task instead of looking for one.", ge=0)
    budget: int = option(150, "Tokens that each memory may show.", ge=1)
    builders: CommaList = option(
        ("full", "query_rag", "compress"), "The memories, comma-separated."
    )
    config: ConfigName = "demo"
    overrides: Overrides = ()
    json_target: JsonFile = None


@command(
    app,
    "stategate demo",
    "stategate demo --goal 3 --budget 300 --builders full,window,compress",
)
def demo(settings: DemoSettings) -> None:
    """Play one task with several memories at the same budget, and show where they part.

    The task is the first of the world's whose endings differ in reward, whoever does better.
    """
    from stategate.envs.protocols import tasks_of
    from stategate.graph.build import build_graph
    from stategate.graph.config import load_config
    from stategate.nodes.registry import registry
    from stategate.ui.cli.run import task_of

    goal, budget, kinds = settings.goal, settings.budget, settings.builders
    output.check_target(settings.json_target)
    if len(kinds) < 2:
        raise UserError("name two memories or more: --builders full,compress")
    settled = load_config(settings.config, settings.overrides)
    for kind in kinds:
        registry().parse("context", {"kind": kind, "budget": budget})
    out = output.console(stderr=settings.json_target == "-")
    out.print(f"The same task with {', '.join(kinds)}: {budget} tokens a step for each.")
    graph = build_graph(settled)
    world = graph.agent.bound().world  # type: ignore[attr-defined]
    tried = [goal] if goal is not None else range(max(min(_TASKS, len(tasks_of(world))), 1))
    for number in tried:
        task = task_of(world, number, ())
        plays = [play_with(graph, kind, budget, task) for kind in kinds]
        if goal is not None or len({play.reward for play in plays}) > 1:
            break
        out.print(
            f"task {number}: all end with reward {plays[0].reward:.2f}; the next", style="dim"
        )
    show(out, plays, number, is_chosen=goal is None)
    if settings.json_target is not None:
        output.write_json(settings.json_target, _as_json(plays, number, budget))


def play_with(graph: "Graph", kind: str, budget: int, task: dict[str, Any]) -> Play:
    """Play ``task`` to its end with the context builder ``kind``."""
    import uuid

    from stategate.graph.session import Session

    context = {"kind": kind, "budget": budget}
    session = Session(graph, f"demo-{uuid.uuid4().hex[:8]}", task=task, context=context)
    return Play(kind, session, session.run())


def parting(plays: Sequence[Play]) -> int | None:
    """Return the first step at which not all did the same, None if all did the same throughout.

    Until then the world went through the same pages, so it is one moment for all of them.
    """
    for number in range(max(len(play.steps) for play in plays)):
        done = {p.steps[number].decision.action if number < len(p.steps) else "" for p in plays}
        if len(done) > 1:
            return number
    return None


def tokens_cut(step: "StepResult") -> int:
    """Return how many tokens of the page are not in the prompt."""
    return sum(max(p.tokens_before - p.tokens_after, 0) for p in step.context.pieces)


def show(out: "Console", plays: Sequence[Play], number: int, *, is_chosen: bool) -> None:
    """Print the task, the step where the memories part, how each ended, and the table."""
    session = plays[0].session
    world, view = session.agent.bound().world, session.agent.resources.view
    _head(out, f"task {number}")
    _say(out, world.instruction(session.values["session"]))
    if is_chosen:
        _say(out, "(the first task whose endings differ, whoever ends better)", "dim")
    at = parting(plays)
    if at is None:
        out.print("All of them did the same at every step.")
    else:
        _moment(out, plays, at, view)
    _head(out, "how each ended")
    out.print(_table(plays))
    _say(
        out, "lost: commands that the model could not read, and tokens of the pages, over all steps"
    )
    _say(
        out,
        "One task at one tight budget proves nothing, and with more room the order may turn (try "
        "--budget 300): docs/results/ has success over 500 tasks, by budget.",
        "dim",
    )
    out.print("see it: make ui", style="bold")


def _moment(out: "Console", plays: Sequence[Play], at: int, view: "View") -> None:
    """Print one moment: page and state, then what each memory showed of it, lost, and did.

    Memories that showed the same are printed together.
    """
    from stategate.ui.cli.transcript import cut, kept_line, page_lines

    owner = next(play for play in plays if at < len(play.steps))
    before = "" if at == 0 else f" (after {at} equal steps)"
    _head(out, f"step {at + 1}: they part{before}")
    for past in owner.steps[:at]:
        _say(out, f"  {past.step + 1}. {past.decision.action}", "dim")
    page = owner.steps[at].observation
    _say(out, "the page: " + "\n          ".join(page_lines(view, page)))
    if words := state_in_words(owner.session, at):
        _say(out, f"the state: {words}")
    reads: dict[str, list[Play]] = {}
    for play in plays:
        text = play.steps[at].context.text if at < len(play.steps) else ""
        reads.setdefault(text, []).append(play)
    for text, readers in reads.items():
        if not text:
            continue
        _head(out, " and ".join(play.kind for play in readers))
        lines = [line for line in text.splitlines() if line.strip()]
        for line in lines[:_LINES]:
            _say(out, f"  │ {cut(line, 74)}")
        if len(lines) > _LINES:
            _say(out, f"  │ … and {len(lines) - _LINES} more lines", "dim")
        _say(out, f"read  {kept_line(readers[0].steps[at].context)}")
        for play in readers:
            who = f"{play.kind} " if len(readers) > 1 else ""
            _say(out, f"{who}did   {play.steps[at].decision.action}", "bold green")


def state_in_words(session: "Session", at: int) -> str:
    """Return the recurrent state at a step in words: its size, and what it foresees; "" if none."""
    from stategate.nodes.update_state import unpacked

    updater: Any = session.agent.bound().resources.updater
    moments = session.moments()
    vector = unpacked(moments[at].get("recurrent")) if at < len(moments) else None
    if updater is None or vector is None:
        return ""
    words = f"{vector.size:,} numbers, after any number of steps"
    if getattr(updater, "classes", None):
        chances = updater.predict(vector)
        likely = sorted(chances.items(), key=lambda pair: -pair[1])[:3]
        words += "; foresees " + ", ".join(f"{name} {100 * p:.0f} %" for name, p in likely)
    return words


def _table(plays: Sequence[Play]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("memory")
    for name in ("reward", "steps", "tokens", "commands lost", "tokens lost"):
        table.add_column(name, justify="right")
    for play in plays:
        steps = f"{len(play.steps)}" + ("" if play.session.values["done"] else " (step cap)")
        lost = (f"{play.commands_lost:,}", f"{play.tokens_cut:,}")
        table.add_row(play.kind, f"{play.reward:.2f}", steps, f"{play.tokens:,}", *lost)
    return table


def _as_json(plays: Sequence[Play], number: int, budget: int) -> dict[str, Any]:
    rows = [
        {
            "kind": play.kind,
            "reward": play.reward,
            "done": bool(play.session.values["done"]),
            "steps": len(play.steps),
            "tokens": play.tokens,
            "commands_lost": play.commands_lost,
            "tokens_lost": play.tokens_cut,
            "actions": [step.decision.action for step in play.steps],
        }
        for play in plays
    ]
    return {"goal": number, "budget": budget, "parts_at": parting(plays), "memories": rows}


def _head(out: "Console", title: str) -> None:
    from rich.text import Text

    out.print()
    out.rule(Text(title, "bold"), align="left", style="dim")


def _say(out: "Console", text: str, style: str = "") -> None:
    out.print(text, style=style, markup=False)
