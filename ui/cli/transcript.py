"""A played episode for people, readable at 80 columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stategate.envs.protocols import Observation, View
from stategate.nodes.protocols import BuiltContext
from stategate.ui.actions import (
    costs_of,
    figure,
    label,
    outcome_cards,
    reward_parts,
    task_in_words,
    unscored,
)
from stategate.ui.cli.output import Show

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from stategate.graph.config import Config
    from stategate.graph.session import StepResult

#: Lines of a page that a transcript shows.
PAGE_LINES = 5
_CHANCES = 4  # that it names of what an actor could have done


def page_lines(view: View, observation: Observation, limit: int = PAGE_LINES) -> list[str]:
    """Return a page's status and first lines; the last line counts the rest."""
    from stategate.nodes.retrieval.page import describe

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
    before = max(before, context.tokens)
    kept = sum(1 for piece in context.pieces if piece.text)
    line = f"kept {kept}/{len(context.pieces)} chunks, {context.tokens} of {before} tokens"
    if context.over_budget:
        line += ", over the budget"
    gone = [label(action) for action in context.dropped_actions]
    if gone:
        more = ", …" if len(gone) > names else ""
        line += f"; dropped: {', '.join(gone[:names])}{more}"
    return line


def chances_line(probabilities: Mapping[str, float]) -> str:
    """Say what else an actor could have done: ``.81 look, .10 go hall, …``, the likeliest first."""
    ranked = sorted(probabilities.items(), key=lambda pair: -pair[1])
    shares = [f"{p:.2f} {cut(label(action), 30)}".lstrip("0") for action, p in ranked[:_CHANCES]]
    return ", ".join(shares) + (", …" if len(ranked) > _CHANCES else "")


def reward_line(reward: float, observation: Observation) -> str:
    """Say the reward and what it is made of: ``0.67  (type 1.00, attributes 0.50, limit yes)``."""
    parts = [f"{part['name']} {figure(part['value'])}" for part in reward_parts(observation)]
    return f"{reward:.2f}" + (f"  ({', '.join(parts)})" if parts else "")


class Transcript:
    """Prints an episode as it is played."""

    def __init__(self, out: "Console", config: "Config", view: View, show: Show = "page") -> None:
        self.out = out
        self.config = config
        self.view = view
        self.show = show

    def head(self, task: Mapping[str, Any], instruction: str, at: int = 0) -> None:
        """Tell which agent plays what (an empty ``instruction`` is left out).

        ``at`` is the number of steps that a resumed episode has behind it.
        """
        from rich.text import Text

        actor, context = self.config.actor.kind, self.config.context
        facts = [f"context {context.kind} ({context.budget})", f"actor {actor}"]
        if actor == "chat" and self.config.llm is not None:
            model = getattr(self.config.llm, "model", "")
            facts.append(f"{self.config.llm.kind} {model}".strip())
        world = (str(task.get("env", self.config.env.kind)), "bold cyan")
        told = (" · " + " · ".join(facts), "dim")
        self.out.print(Text.assemble(world, f"  {task_in_words(task)}", told))
        if instruction:
            self.out.print(Text(instruction.strip(), "bold"))
        if at:
            self.out.print(Text(f"goes on after step {at}", "yellow"))

    def step(self, result: "StepResult", fallback: str | None) -> None:
        """Print one step; ``fallback`` says why the action is not the actor's own, or was in vain."""
        rows = self._begin(f"step {result.step + 1} of at most {self.config.max_steps}")
        if self.show == "context":
            rows.add_row("prompt", _plain(result.context.text.rstrip()))
        elif self.show == "page":
            rows.add_row("page", _plain("\n".join(page_lines(self.view, result.observation))))
        rows.add_row("context", _plain(kept_line(result.context)))
        for piece in result.context.pieces:
            if piece.kind == "experience" and piece.text:
                advice = piece.text.strip().removeprefix("Experience: ")
                rows.add_row("advice", _plain(advice, "magenta"))
            elif piece.kind == "fallback":
                rows.add_row("fallback", _plain(piece.id.removeprefix("fallback:"), "bold red"))
        rows.add_row("action", _plain(result.decision.action, "bold green"))
        if result.decision.reason:
            rows.add_row("thought", _plain(result.decision.reason, "italic"))
        if len(result.decision.probabilities) > 1:
            rows.add_row("chances", _plain(chances_line(result.decision.probabilities)))
        if fallback is not None:
            rows.add_row("fallback", _plain(fallback, "bold red"))
        took = [f"{result.seconds:.2f} s", *costs_of(result.decision)]
        rows.add_row("took", _plain(", ".join(took), "dim"))
        self.out.print(rows)

    def end(self, episode: Mapping[str, Any], last: Observation) -> None:
        """Print the outcome on the ``last`` page and the totals of an ``episode_dict``."""
        totals = episode["totals"]
        rows = self._begin("end")
        reward = totals["reward"]
        if why := unscored(last):
            rows.add_row("result", _plain(", ".join(str(c["title"]) for c in outcome_cards(last))))
            rows.add_row("reward", _plain(f"none: {why}", "yellow"))
            reward = None
        style = "bold green" if reward == 1.0 else "bold yellow" if reward else "bold red"
        if reward is not None:
            rows.add_row("reward", _plain(reward_line(reward, last), style))
        if not totals["done"]:
            is_capped = totals["steps"] >= self.config.max_steps
            why = "the step cap" if is_capped else "stopped by hand"
            rows.add_row("", _plain(f"not finished: {why}", "yellow"))
        sums = [f"{totals['steps']} steps", f"{totals['tokens']} tokens of context"]
        if totals["model_tokens"]:
            sums.append(f"{totals['model_tokens']} tokens by the model")
        if totals["cost"]:
            sums.append(f"${totals['cost']:.4f}")
        rows.add_row("totals", _plain(", ".join([*sums, f"{totals['seconds']:.1f} s"])))
        if totals["fallbacks"]:
            rows.add_row("fallback", _plain(f"in {totals['fallbacks']} steps", "bold red"))
        self.out.print(rows)

    def _begin(self, title: str) -> "Table":
        from rich.table import Table

        self.out.print()
        self.out.rule(_plain(title, "bold"), align="left", style="dim")
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True, min_width=8)
        rows.add_column(overflow="fold")
        return rows


def _plain(text: str, style: str = "") -> Any:
    from rich.text import Text

    return Text(text, style)  # pages hold square brackets, which must not be read as markup
