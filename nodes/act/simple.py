"""Actors that need no model: ``explore``, ``human``, ``scripted``, and ``noisy`` around another."""

import hashlib
import random
from collections import Counter
from dataclasses import replace
from typing import ClassVar, Literal

from langgraph.types import interrupt
from pydantic import Field

from stategate.envs.protocols import fill, takes_text
from stategate.nodes.protocols import Actor, ActorParams, BuiltContext, Decision, EnvParams
from stategate.nodes.registry import InnerActor
from stategate.nodes.resources import Resources
from stategate.stores.text import one_line, overlap, words_of

_TAKEN = 0.5  # what each time that a command was taken costs it
_NEAR = 0.25  # what the text beside a command counts, beside the command's own words


class Explore(ActorParams):
    """No model: takes the action that shares most words with the task, untried ones first.

    It plays any world from the built context alone, so that memories can be compared at once: it cannot
    take an action that a builder drops, and it repeats one that the history no longer shows.
    """

    kind: Literal["explore"] = "explore"

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""
        safe = resources.profile.view.actions.safe

        def act(context: BuiltContext, step: int) -> Decision:
            goal = context.instruction
            counts = Counter(step.action for step in context.steps)
            scores: dict[str, float] = {}
            for piece in context.pieces:
                context_overlap = overlap(words_of(goal), piece.text) if goal else 0.0
                for action in piece.actions:
                    written = fill(action, goal or "help") if takes_text(action) else action
                    words = words_of(action)
                    shared = overlap(words, goal) if words and goal else 0.0
                    score = shared + _NEAR * context_overlap - _TAKEN * counts[one_line(written)]
                    scores.setdefault(written, score)
            if not scores:
                problem = "no action is readable"
                return Decision(safe(context.actions, goal), fallback=problem)
            best = max(scores, key=scores.__getitem__)
            return Decision(best, reason=f"shares {scores[best]:.2f} with what is asked")

        return act


class Human(ActorParams):
    """You choose.

    The graph is interrupted until someone resumes it with an action. From LangGraph:
    ``graph.invoke(Command(resume="an action"), thread)``. From a session: ``session.act("an action")``.
    """

    kind: Literal["human"] = "human"

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""

        def act(context: BuiltContext, step: int) -> Decision:
            prompt = {"step": step, "context": context.text, "actions": list(context.actions)}
            return Decision(str(interrupt(prompt)), reason="a person's own action")

        return act


class Scripted(ActorParams):
    """Plays a list of actions. Past their end its action is a recorded fallback."""

    kind: Literal["scripted"] = "scripted"
    actions: tuple[str, ...] = Field(description="the action of each step")

    def build(self, resources: Resources) -> Actor:
        """Return the actor; nothing is loaded."""
        safe = resources.profile.view.actions.safe

        def act(context: BuiltContext, step: int) -> Decision:
            if step < len(self.actions):
                return Decision(self.actions[step], reason="scripted")
            return Decision(safe(context.actions, ""), fallback="the script has ended")

        return act


class Noisy(ActorParams):
    """Another actor, which now and then does something at random.

    Noise is drawn by a hash of context and step: equal contexts give equal decisions.
    """

    kind: Literal["noisy"] = "noisy"
    aliases: ClassVar[tuple[str, ...]] = ("slips",)
    inner: InnerActor = Field(default={"kind": "rule"}, validate_default=True)
    rate: float = Field(default=0.15, ge=0, le=1)
    seed: int = 0

    def misfit(self, env: EnvParams) -> str:
        """Say why the inner actor cannot play in ``env``."""
        return self.inner.misfit(env)

    def build(self, resources: Resources) -> Actor:
        """Build the inner actor."""
        inner: Actor = resources.get(self.inner)

        def act(context: BuiltContext, step: int) -> Decision:
            decision = inner(context, step)
            seen = f"{self.seed}\n{step}\n{context.text}"
            digest = hashlib.sha256(seen.encode("utf-8", "surrogatepass")).digest()
            rng = random.Random(digest)
            others = [a for a in context.actions if a != decision.action and not takes_text(a)]
            if rng.random() >= self.rate or not others:
                return decision
            return replace(decision, action=rng.choice(others), reason="a mistake, on purpose")

        return act


def vain_actions(context: BuiltContext) -> frozenset[str]:
    """Return all earlier actions, on one line each, if the last step repeated one without effect.

    Read from the visible outcomes of steps and from the marks at commands. Empty otherwise.
    """
    outcomes: dict[str, str] = {}
    is_again = False
    for step in (piece.step for piece in context.visible("event")):
        if step is not None:
            before = outcomes.get(step.action)
            is_again = before is not None and (
                step.outcome.startswith(before) or before.startswith(step.outcome)
            )
            outcomes[step.action] = step.outcome or before or ""
    if not is_again:
        return frozenset()
    marked = (action for piece in context.pieces for action in piece.done_actions)
    return frozenset((*outcomes, *map(one_line, marked)))
