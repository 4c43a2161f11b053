"""A person at the keyboard instead of an actor: the page with numbered choices, and their answer."""

from collections.abc import Generator

from rich.console import Console
from rich.text import Text

from stategate.envs.protocols import Observation, View, takes_text, verb_of
from stategate.graph.session import Session, StepResult
from stategate.nodes.retrieval.page import describe
from stategate.stores.errors import UserError
from stategate.ui.actions import label, typed_action
from stategate.ui.cli.output import heading


def play_by_hand(session: Session, out: Console) -> Generator[StepResult, None, None]:
    """Ask for an action until the episode is over or the person quits, yielding each step.

    An illegal action is told in one line and asked for again. Raises ``UserError`` when the input
    ends in the middle.
    """
    view = session.agent.resources.view
    printed_step = -1
    while not session.done:
        observation = session.observation
        if session.values["steps"] != printed_step:
            printed_step = session.values["steps"]
            heading(out, f"step {printed_step + 1}")
            instruction = session.agent.world.instruction(session.values["session"])
            out.print(instruction.strip(), style="bold", markup=False)
            out.print(page_text(view, observation))
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


def page_text(view: View, observation: Observation) -> Text:
    """Return the page as agents read it, then its choices behind the numbers that take them."""
    chunks = [chunk for chunk in view.chunks(observation) if chunk.role != "frame"]
    text = Text("\n".join(describe(view, chunk) for chunk in chunks) + "\n")
    for number, action in enumerate(observation.actions, 1):
        text.append(f"{number} ", "bold cyan").append(f"{label(action)}   ")
    return text
