"""``slips``: another actor that now and then does something else, to gather experience of mistakes.

A slip is drawn from what the context offers, by a hash of the context and the step, so that equal
contexts give equal decisions.
"""

import hashlib
import random
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, SerializeAsAny, field_validator

from envs.protocols import takes_text
from nodes.protocols import Actor, ActorParams, BuiltContext, Decision, EnvParams
from nodes.registry import registry
from nodes.resources import Resources


class Slips(ActorParams):
    """Let ``inner`` decide, but at the rate ``rate`` take any command that the context offers."""

    kind: Literal["slips"] = "slips"
    inner: SerializeAsAny[ActorParams] = Field(default={"kind": "rule"}, validate_default=True)
    rate: float = Field(default=0.15, ge=0, le=1)
    seed: int = 0

    @field_validator("inner", mode="before")
    @classmethod
    def _parse_inner(cls, value: Any) -> Any:
        return registry().parse("actor", value)

    def misfit(self, env: EnvParams) -> str:
        """Say why the inner actor cannot play in ``env``."""
        return self.inner.misfit(env)

    def build(self, resources: Resources) -> Actor:
        """Build the inner actor."""
        inner: Actor = resources.get(self.inner)

        def act(context: BuiltContext, step: int) -> Decision:
            decision = inner(context, step)
            digest = hashlib.sha256(f"{self.seed}\n{step}\n{context.text}".encode()).digest()
            rng = random.Random(digest)
            others = [a for a in context.actions if a != decision.action and not takes_text(a)]
            if rng.random() >= self.rate or not others:
                return decision
            return replace(decision, action=rng.choice(others), reason="a slip, on purpose")

        return act
