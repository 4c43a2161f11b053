"""``human``: a person chooses, through LangGraph's own interrupt."""

from typing import Literal

from langgraph.types import interrupt

from nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from nodes.resources import Resources


class Human(ActorParams):
    """Interrupt the graph until someone resumes it with an action.

    From LangGraph: ``graph.invoke(Command(resume="an action"), thread)``. From a session:
    ``session.act("an action")``.
    """

    kind: Literal["human"] = "human"

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""

        def act(context: BuiltContext, step: int) -> Decision:
            asked = {"step": step, "context": context.text, "actions": list(context.actions)}
            return Decision(str(interrupt(asked)), reason="a person's own action")

        return act
