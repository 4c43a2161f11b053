"""The return-based annotator: worth and words for every decision, without a model.

The worth of a decision is its discounted reward-to-go on a scale of 0 to 10; its words are the
decision's own thought, or what it did told in general terms by the world's view, so that advice carries
over to other tasks.
"""

import math
from dataclasses import dataclass

from envs.protocols import View
from nodes.experience.episode import Episode, Step

NAME = "return"
BLAME = 0.5  # what is left of the worth of decisions that led to a failure
GAMMA = 0.97  # a step: a success ten steps away is worth 7.4
_THOUGHT = 240  # characters of a thought that advice repeats


@dataclass(frozen=True)
class Annotation:
    """Worth (0 to 10) and advice of one decision; no advice where nothing can be said."""

    q: float
    experience: str
    by: str = NAME


def annotate(episode: Episode, view: View, gamma: float = GAMMA) -> list[Annotation]:
    """Return one annotation a decision."""
    scale = 10.0 if episode.correct else 10.0 * BLAME
    worth = [scale * value for value in returns(episode, gamma)]
    return [
        Annotation(round(q, 3), _words(episode, view, i, step))
        for i, (q, step) in enumerate(zip(worth, episode.steps, strict=True))
    ]


def returns(episode: Episode, gamma: float = GAMMA) -> list[float]:
    """Return the discounted reward-to-go of each decision: ``reward * gamma ** (steps left)``."""
    last = len(episode.steps) - 1
    reward = min(max(episode.reward, 0.0), 1.0) if math.isfinite(episode.reward) else 0.0
    return [reward * gamma ** (last - i) for i in range(last + 1)]


def _words(episode: Episode, view: View, i: int, step: Step) -> str:
    if step.thought:
        words = view.actions.general(" ".join(step.thought.split()))[:_THOUGHT]
    else:
        words = view.actions.tell(episode.question, step.before, step.action)
    left = len(episode.steps) - 1 - i
    ended = "full reward" if episode.reward >= 1.0 else f"a reward of {episode.reward:.2f}"
    when = f"{left} steps later" if left > 1 else "one step later" if left else "with this step"
    return f"{words.rstrip('.')}. It ended in {ended} {when}."
