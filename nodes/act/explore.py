"""``explore``: plays any world without a model, so that memories can be compared on it at once.

It takes the readable command that shares most with what is asked, unless it was taken before: each time
that the visible history shows a command, it counts for less. It reads only the built context, so what a
context builder drops it cannot do, and what the history no longer shows it does again.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from envs.protocols import fill, takes_text
from nodes.protocols import Actor, ActorParams, BuiltContext, Decision
from stores.text import one_line, overlap, words_of

if TYPE_CHECKING:
    from nodes.resources import Resources

_ASKED = re.compile(r"^(?:Instruction|Question): (.+)$", re.MULTILINE)
_ACTED = re.compile(r"^\d+\. (.+)$", re.MULTILINE)
_NEAR = 0.25  # what the text beside a command counts, beside the command's own words


class Explore(ActorParams):
    """Take the command that shares most with what is asked and was taken least."""

    kind: Literal["explore"] = "explore"
    boredom: float = Field(
        default=0.5, ge=0, description="what each time that a command was taken costs it"
    )

    def build(self, resources: "Resources") -> Actor:
        """Return the actor; nothing is loaded."""
        safe = resources.view.actions.safe

        def act(context: BuiltContext, step: int) -> Decision:
            found = _ASKED.search(context.part("instruction", "question"))
            asked = found[1] if found else ""
            taken = Counter(_ACTED.findall(context.part("history")))
            scores: dict[str, float] = {}
            for piece in context.pieces:
                near = overlap(words_of(asked), piece.text) if asked else 0.0
                for action in piece.actions:
                    written = fill(action, asked or "help") if takes_text(action) else action
                    words = words_of(action)
                    shared = overlap(words, asked) if words and asked else 0.0
                    score = shared + _NEAR * near - self.boredom * taken[one_line(written)]
                    scores.setdefault(written, score)
            if not scores:
                problem = "no action is readable"
                return Decision(safe(context.actions, asked), fallback=problem)
            best = max(scores, key=scores.__getitem__)
            return Decision(best, reason=f"shares {scores[best]:.2f} with what is asked")

        return act
