"""An episode at a glance: the agent's nodes, the steps as a trail, the last action."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from stategate.nodes.protocols import Decision
from stategate.ui.actions import costs_of
from stategate.ui.app.render.html import brief, macros, plural


@dataclass(frozen=True)
class Stop:
    """One step as the trail shows it; ``step`` counts from 0."""

    step: int
    action: str
    context: str = ""
    tokens: int = 0
    seconds: float = 0.0
    reason: str = ""
    fallback: str | None = None
    by_hand: bool = False
    #: What stands under the action, where it is not who acted, on how many tokens, for how long.
    facts: str = ""

    @property
    def how(self) -> str:
        """Who acted, on how many tokens, for how long."""
        took = f" · {brief(self.seconds)}" if self.seconds else ""
        return f"{'you' if self.by_hand else self.context} · {self.tokens:,} tokens{took}"


def render_pipeline(kinds: Mapping[str, str]) -> Markup:
    """Draw the agent's nodes in order, each with its kind."""
    return macros("frame").pipeline(kinds.items())


def render_trail(stops: Sequence[Stop], looked_at: int | None, over: bool) -> Markup:
    """Draw the steps taken as a strip of buttons; ``looked_at`` is the one shown (None: now)."""
    return macros("episode").trail(stops, looked_at, over) if stops else Markup("")


def render_action(stop: Stop, decision: Decision) -> Markup:
    """Draw the action of a step: what was done, why, how sure, what it cost."""
    costs = [brief(stop.seconds)] if stop.seconds else []
    costs += [plural(stop.tokens, "token") + " read", *costs_of(decision)]
    return macros("episode").action(stop, costs)
