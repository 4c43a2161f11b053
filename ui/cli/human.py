"""A person at the keyboard instead of an actor: the page with numbered choices, and their answer."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from envs.protocols import SEARCH, Observation
from nodes.protocols import Chunk
from stores.errors import UserError
from ui.cli.transcript import FAMILIAR, label

if TYPE_CHECKING:
    from rich.console import Console

    from graph.session import Session, StepResult

_HELP = "type a number, [bold]search words[/bold], an action, or [bold]q[/bold] to quit"


def play_by_hand(session: "Session", out: "Console") -> Generator["StepResult", None, None]:
    """Ask for an action until the episode is over or the person quits, yielding each step.

    An illegal action is told in one line and asked for again. Raises ``UserError`` when the input
    ends in the middle.
    """
    chunk = session.agent.config.env.chunk
    world = session.agent.bound().world
    shown = -1
    while not session.done:
        observation = session.observation
        values = session.values
        if values["steps"] != shown:
            shown = values["steps"]
            out.print()
            out.rule(f"[bold]step {shown + 1}[/bold]", align="left", style="dim")
            out.print(world.instruction(values["session"]).strip(), style="bold", markup=False)
            show_page(out, chunk(observation), observation)
            out.print(f"[dim]{_HELP}[/dim]")
        answer = _ask(out)
        if answer.lower() in ("q", "quit"):
            return
        if not answer:
            continue
        try:
            result = session.act(to_action(answer, observation))
        except UserError as error:
            out.print(f"{error}", style="red", markup=False, soft_wrap=True)
            continue
        out.print(f"→ {result.decision.action}", style="bold green", markup=False)
        yield result


def to_action(answer: str, observation: Observation) -> str:
    """Turn ``3``, ``search red shoes``, ``buy now`` or an action into an action.

    Raises ``UserError`` for a number that is not on the page.
    """
    text = " ".join(answer.split())
    if text.isdigit():
        choices = observation.actions
        if not 1 <= int(text) <= len(choices):
            raise UserError(f"no number {text}: the page has 1 to {len(choices)}")
        if choices[int(text) - 1] == SEARCH:
            raise UserError("to search, type: search and your words")
        return choices[int(text) - 1]
    head, _, words = text.partition(" ")
    if head.lower() == "search" and words:
        return f"search[{words}]"
    click = f"click[{text.lower()}]"
    return click if click in observation.actions else text


def show_page(out: "Console", chunks: Sequence[Chunk], observation: Observation) -> None:
    """Print the page, each choice behind the number that takes it."""
    from nodes.build_context.render import describe
    from rich.table import Table
    from rich.text import Text

    numbers = {action: i for i, action in enumerate(observation.actions, 1)}
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="bold cyan", no_wrap=True, min_width=2)
    grid.add_column(overflow="fold")
    for chunk in chunks:
        here = [action for action in chunk.actions if action in numbers]
        if chunk.kind == "product" and here:
            grid.add_row(str(numbers.pop(here[0])), Text(describe(chunk)))
        elif here:
            grid.add_row("", _choices(chunk, [(numbers.pop(a), a) for a in here]))
        elif chunk.kind not in FAMILIAR and (text := describe(chunk)):
            grid.add_row("", Text(text))
    if numbers:
        grid.add_row("", _choices(None, [(n, action) for action, n in numbers.items()]))
    out.print(grid)


def _choices(chunk: Chunk | None, choices: Sequence[tuple[int, str]]) -> Any:
    from rich.text import Text

    data = chunk.data if chunk is not None else {}
    line = Text(f"{data['name']}:  " if "name" in data else "")
    if "page" in data:
        line.append(f"Page {data['page']} (Total results: {data['total']})  ")
    for number, action in choices:
        name = "search …" if action == SEARCH else label(action)
        line.append(f"{number} ", "bold cyan")
        line.append(name, "bold reverse" if name == str(data.get("chosen")).lower() else "")
        line.append("   ")
    line.rstrip()
    return line


def _ask(out: "Console") -> str:
    try:
        return out.input("[bold]> [/bold]").strip()
    except EOFError:
        out.print()
        raise UserError("the input ended before the episode did: type q to quit") from None
