"""What a session tells of a step that was taken, and of one that another memory would take."""

from dataclasses import dataclass

from envs.protocols import Observation
from nodes.protocols import BuiltContext, Decision


@dataclass(frozen=True)
class StepResult:
    """What happened in one step. ``reward`` and ``done`` are the outcome's; ``step`` counts from 0."""

    step: int
    observation: Observation
    context: BuiltContext
    decision: Decision
    outcome: Observation
    seconds: float

    @property
    def reward(self) -> float:
        """The step's reward."""
        return self.outcome.reward

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.outcome.done

    @property
    def tokens(self) -> int:
        """Tokens of the built context."""
        return self.context.tokens


@dataclass(frozen=True)
class Preview:
    """What a memory would make of a moment: the page, what is read of it, what would be done.

    ``decision`` is None where nobody was asked. Seconds are those of building and of choosing, once
    what a builder loads is there.
    """

    observation: Observation
    context: BuiltContext
    decision: Decision | None
    build_seconds: float
    act_seconds: float
    budget: int
