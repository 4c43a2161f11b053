"""A person at the keyboard instead of an actor: the page with numbered choices, and their answer."""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from stategate.envs.protocols import Chunk, Observation, View, takes_text, verb_of
from stategate.nodes.retrieval.page import describe
from stategate.stores.errors import UserError
from stategate.ui.actions import label, lead_of, typed_action
from stategate.ui.cli.output import heading

if TYPE_CHECKING:
    from rich.console import Console

    from stategate.graph.session import Session, StepResult


def play_by_hand(session: "Session", out: "Console") -> Generator["StepResult", None, None]:
    """Ask for an action until the episode is over or the person quits, yielding each step.

    An illegal action is told in one line and asked for again. Raises ``UserError`` when the input
    ends in the middle.
    """
    view = session.agent.resources.view
    shown = -1
    while not session.done:
        observation = session.observation
        if session.values["steps"] != shown:
            shown = session.values["steps"]
            heading(out, f"step {shown + 1}")
            asked = session.agent.world.instruction(session.values["session"])
            out.print(asked.strip(), style="bold", markup=False)
            out.print(page_table(view, observation))
            verbs = dict.fromkeys(verb_of(a) for a in observation.actions if takes_text(a))
            words = "".join(f"{verb} words, " for verb in verbs)
            out.print(f"type a number, {words}an action, or q to quit", style="dim")
        try:
            answer = out.input("[bold]> [/bold]").strip()
        except EOFError:
            out.print()
            raise UserError("the input ended before the episode did: type q to quit") from None
        if answer.lower() in ("q", "quit"):
            return
        if not answer:
            continue
        try:
            result = session.act(to_action(answer, observation, view))
        except UserError as error:
            out.print(f"{error}", style="red", markup=False, soft_wrap=True)
            continue
        out.print(f"→ {result.decision.action}", style="bold green", markup=False)
        yield result


def to_action(answer: str, observation: Observation, view: View) -> str:
    """Turn ``3``, a verb and words, a command's label or an action into an action.

    Raises ``UserError`` for a number that is not on the page.
    """
    if not answer.isdigit():
        return typed_action(answer, observation, view.actions)
    number, choices = int(answer), observation.actions
    if not 1 <= number <= len(choices):
        raise UserError(f"no number {number}: the page has 1 to {len(choices)}")
    chosen = choices[number - 1]
    if takes_text(chosen):
        verb = verb_of(chosen)
        raise UserError(f"to {verb}, type: {verb} and your words")
    return chosen


def page_table(view: View, observation: Observation) -> Table:
    """Return the page, each choice behind the number that takes it."""
    numbers = {action: i for i, action in enumerate(observation.actions, 1)}
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", style="bold cyan", no_wrap=True, min_width=2)
    table.add_column(overflow="fold")
    chunks = view.chunks(observation)
    rest = tuple(a for a in numbers if not any(a in chunk.actions for chunk in chunks))
    for chunk in [*chunks, Chunk("rest", "rest", "", rest, role="commands")]:
        here = {action: numbers.pop(action) for action in chunk.actions if action in numbers}
        if chunk.role == "entry" and here:
            table.add_row(str(next(iter(here.values()))), Text(describe(view, chunk)))
            continue
        is_said = chunk.role != "frame" and (not here or chunk.role in ("text", "subject"))
        if is_said and (text := describe(view, chunk)):
            table.add_row("", Text(text))
        if here:
            table.add_row("", _choices(chunk, here))
    return table


def _choices(chunk: Chunk, numbers: Mapping[str, int]) -> Text:
    """Return the commands of a chunk in a line; the option that is chosen is reversed."""
    lead, chosen = lead_of(chunk), None
    if chunk.choice is not None:
        lead = f"{chunk.choice.name}:"
        by_value = dict(zip(chunk.choice.values, chunk.actions, strict=False))
        chosen = by_value.get(chunk.choice.chosen or "")
    line = Text(f"{lead}  " if lead else "")
    for action, number in numbers.items():
        line.append(f"{number} ", "bold cyan")
        line.append(label(action), "bold reverse" if action == chosen else "").append("   ")
    line.rstrip()
    return line
