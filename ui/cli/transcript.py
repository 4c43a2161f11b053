"""A played episode for people, readable at 80 columns."""

from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stategate.envs.protocols import Observation, View
from stategate.graph.session import Session, StepResult
from stategate.nodes.protocols import BuiltContext
from stategate.nodes.retrieval.align import unsure_parts
from stategate.nodes.retrieval.page import describe
from stategate.ui.actions import costs_of, figure, label, reward_parts, task_in_words, unscored
from stategate.ui.cli.output import heading

_PAGE_LINES = 5  # of a page that a transcript shows


def page_lines(view: View, observation: Observation, limit: int = _PAGE_LINES) -> list[str]:
    """Return a page's status and first lines; the last line counts the rest."""
    chunks = view.chunks(observation)
    texts = [line.text for line in view.status(observation, chunks)]
    texts += [describe(view, chunk) for chunk in chunks if chunk.role != "frame"]
    lines = [cut(line.strip()) for text in texts for line in text.splitlines() if line.strip()]
    if len(lines) <= limit:
        return lines
    return [*lines[: limit - 1], f"… and {len(lines) - limit + 1} more lines"]


def cut(line: str, width: int = 68) -> str:
    """Shorten ``line`` to ``width`` characters; a short last column stays."""
    if len(line) <= width:
        return line
    head, bar, last = line.rpartition(" | ")
    tail = bar + last if head and len(last) < 20 else ""
    return line[: width - 1 - len(tail)].rstrip(" ,|") + "…" + tail


def kept_line(context: BuiltContext, names: int = 6) -> str:
    """Say what a context kept: ``kept 14/20 chunks, 310 of 980 tokens; dropped: look, …``."""
    # A piece may be framed, and so longer than it was: what is kept is never more than there was.
    before = sum(max(piece.tokens_before, piece.tokens_after) for piece in context.pieces)
    visible = sum(1 for piece in context.pieces if piece.text)
    line = f"kept {visible}/{len(context.pieces)} chunks, "
    line += f"{context.tokens} of {max(before, context.tokens)} tokens"
    line += ", over the budget" if context.over_budget else ""
    gone = [label(action) for action in context.dropped_actions]
    more = ", …" if len(gone) > names else ""
    return line + (f"; dropped: {', '.join(gone[:names])}{more}" if gone else "")


def reward_line(reward: float, observation: Observation) -> str:
    """Say the reward and what it is made of: ``0.67  (type 1.00, attributes 0.50, limit yes)``."""
    parts = [f"{part['name']} {figure(part['value'])}" for part in reward_parts(observation)]
    return f"{reward:.2f}" + (f"  ({', '.join(parts)})" if parts else "")


class Transcript:
    """Prints an episode as it is played."""

    def __init__(
        self, out: Console, session: Session, show: Literal["page", "context", "none"] = "page"
    ) -> None:
        self.out, self.session, self.show = out, session, show
        self.config, self.view = session.agent.config, session.agent.resources.profile.view

    def head(self) -> None:
        """Tell which agent plays what, and where a resumed episode goes on."""
        values, context = self.session.values, self.config.context
        task = values["episode"]
        instruction = self.session.agent.world.instruction(values["session"])
        facts = f" · context {context.kind} ({context.budget}) · actor {self.config.actor.kind}"
        if self.config.actor.asks_model and self.config.llm is not None:
            facts += f" · {self.config.llm.kind}"
        world = (str(task.get("env", self.config.env.kind)), "bold cyan")
        self.out.print(Text.assemble(world, f"  {task_in_words(task)}", (facts, "dim")))
        self.out.print(Text(instruction.strip(), "bold"))
        if values["steps"]:
            self.out.print(Text(f"goes on after step {values['steps']}", "yellow"))
        if doubts := unsure_parts(self.view, instruction):
            self.out.print(f"not surely understood: {'; '.join(doubts)}", markup=False)

    def step(self, result: StepResult) -> None:
        """Print one step; its fallback says why the action is not the actor's own, or was in vain."""
        decision, context = result.decision, result.context
        rows = [("context", kept_line(context), "")]
        if self.show == "context":
            rows.insert(0, ("prompt", context.text.rstrip(), ""))
        elif self.show == "page":
            rows.insert(0, ("page", "\n".join(page_lines(self.view, result.observation)), ""))
        for piece in context.pieces:
            if piece.kind == "experience" and piece.text:
                advice = piece.text.strip().removeprefix("Experience: ")
                rows.append(("advice", advice, "magenta"))
            elif piece.kind == "fallback":
                rows.append(("fallback", piece.id.removeprefix("fallback:"), "bold red"))
        rows.append(("action", decision.action, "bold green"))
        if decision.reason:
            rows.append(("thought", decision.reason, "italic"))
        if decision.fallback is not None:
            rows.append(("fallback", decision.fallback, "bold red"))
        took = [f"{result.seconds:.2f} s", *costs_of(decision)]
        rows.append(("took", ", ".join(took), "dim"))
        self._print(f"step {result.step + 1} of at most {self.config.max_steps}", rows)

    def end(self, seconds: float) -> None:
        """Print the outcome on the last page, and the totals."""
        values, last = self.session.values, self.session.observation
        reward, rows = values["reward"], []
        if why := unscored(last):
            rows.append(("reward", f"none: {why}", "yellow"))
        elif reward is not None:
            style = "bold green" if reward == 1.0 else "bold yellow" if reward else "bold red"
            rows.append(("reward", reward_line(reward, last), style))
        if not values["done"]:
            is_capped = values["steps"] >= self.config.max_steps
            why = "not finished: the step cap" if is_capped else "not finished"
            rows.append(("", why, "yellow"))
        sums = [f"{values['steps']} steps", f"{values['tokens']} tokens of context"]
        if values["model_tokens"]:
            sums.append(f"{values['model_tokens']} tokens by the model")
        if values["cost"]:
            sums.append(f"${values['cost']:.4f}")
        rows.append(("totals", ", ".join([*sums, f"{seconds:.1f} s"]), ""))
        if values["fallbacks"]:
            rows.append(("fallback", f"in {values['fallbacks']} steps", "bold red"))
        self._print("end", rows)

    def _print(self, title: str, rows: list[tuple[str, str, str]]) -> None:
        """Print a heading and ``(name, text, style)`` rows; texts hold brackets that are no markup."""
        heading(self.out, title)
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True, min_width=8)
        table.add_column(overflow="fold")
        for name, text, style in rows:
            table.add_row(name, Text(text, style))
        self.out.print(table)
