"""Controls of evaluations, as actor kinds: what a guide earns without a language model."""

import random
from typing import Literal

from stategate.envs.protocols import fill, takes_text
from stategate.nodes.act.chat import guided_offer
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stategate.nodes.resources import Resources


class GuidedRandom(ActorParams):
    """A control: a random pick among what guided_chat's planner offers. Equal contexts, equal picks."""

    kind: Literal["guided_random"] = "guided_random"
    seed: int = 0

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""

        def act(context: BuiltContext, step: int) -> Decision:
            offers = guided_offer(context, resources).actions
            if not offers:
                safe = resources.profile.view.actions.safe(context.actions, "")
                return Decision(safe, fallback="no action is readable")
            action = random.Random(f"{self.seed} {step} {context.text}").choice(offers)
            if takes_text(action):
                action = fill(action, context.instruction or "help")
            return Decision(action, reason="a random pick among the guide's offers")

        return act
