"""``scripted``: plays a list of actions, for tests and replays."""

from typing import Literal

from pydantic import Field

from nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from nodes.resources import Resources


class Scripted(ActorParams):
    """Play ``actions`` by step number; past their end, a recorded fallback."""

    kind: Literal["scripted"] = "scripted"
    actions: tuple[str, ...] = Field(description="the action of each step")

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""
        safe = resources.view.actions.safe

        def act(context: BuiltContext, step: int) -> Decision:
            if step < len(self.actions):
                return Decision(self.actions[step], reason="scripted")
            return Decision(safe(context.actions, ""), fallback="the script has ended")

        return act
