"""``experience_notes``: another builder's context, and notes that somebody made before the episode.

What reflect-and-retry (``evals.worlds.retry``) tells the next trial of a task.
"""

from typing import Literal

from pydantic import Field

from stategate.nodes.build_context.experience import LEAD, Advice, AdvisedContext
from stategate.nodes.protocols import ContextBuilder, ContextRequest
from stategate.nodes.resources import Resources

#: What leads, in a note, the names of what was looked at and held nothing that is asked.
VAIN = "In vain: "


class ExperienceNotes(AdvisedContext):
    """Wrap ``inner`` and add ``notes``, a line each."""

    kind: Literal["experience_notes"] = "experience_notes"
    notes: tuple[str, ...] = Field(default=(), description="lines to add; none: nothing is added")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; no bank is opened."""
        rows = tuple(f"note {i}" for i in range(len(self.notes)))
        advice = Advice(tuple(f"{LEAD}{note}" for note in self.notes), rows) if self.notes else None

        def advise(request: ContextRequest) -> Advice | None:
            return advice

        return self.advised(resources, advise)
