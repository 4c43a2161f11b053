"""An episode at a glance: its steps as a trail, the last action, the reward with its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from stategate.nodes.protocols import Decision
from stategate.ui.actions import costs_of
from stategate.ui.app.render.html import brief, macros, plural

#: The picture of the agent: each node, and the slot of the config that fills it.
_NODES = {
    "observe": "env",
    "update_state": "updater",
    "build_context": "context",
    "act": "actor",
    "write_memory": "memory",
}


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


def render_pipeline(kinds: Mapping[str, str | Sequence[str]]) -> Markup:
    """Draw observe → update_state → build_context → act → write_memory with today's kinds."""
    nodes = []
    for node, slot in _NODES.items():
        kind = kinds.get(slot) or "none"
        nodes.append((node, slot, kind if isinstance(kind, str) else ", ".join(kind)))
    return macros("frame").pipeline(nodes)


def render_trail(stops: Sequence[Stop], looked_at: int | None, over: bool) -> Markup:
    """Draw the steps taken as a strip of buttons; ``looked_at`` is the one shown (None: now)."""
    return macros("episode").trail(stops, looked_at, over) if stops else Markup("")


def render_action(stop: Stop, decision: Decision) -> Markup:
    """Draw the action of a step: what was done, why, how sure, what it cost."""
    costs = [brief(stop.seconds)] if stop.seconds else []
    costs += [plural(stop.tokens, "token") + " read", *costs_of(decision)]
    return macros("episode").action(stop, costs)


def render_unscored(what: str, why: str) -> Markup:
    """Draw the end of an episode that nobody can score: what came of it, and why there is no figure."""
    return macros("episode").unscored(what, why)


def render_reward(
    reward: float, parts: Sequence[Mapping[str, Any]] = (), done: bool = True
) -> Markup:
    """Draw the reward of an episode and its parts (name, value, weight): weighted ones as bars."""
    return macros("episode").reward(reward, parts) if done else macros("episode").unfinished()
