"""What happens in an episode: events (kept by ``traces.store``)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

#: A note is what a page said of what is asked; recent events hold it, traces do not.
EventKind = Literal["OBS", "ACT", "REWARD", "DONE", "ERROR", "NOTE"]


@dataclass(frozen=True)
class Event:
    """One thing that happened: ``t`` is the step (from 0) in which it did.

    ``instruction`` is what the task asks for, where whoever tells of the event knows it: it helps to
    read the event, and is no part of it.
    """

    kind: EventKind
    text: str
    t: int
    instruction: str = field(default="", compare=False, repr=False)

    def to_list(self) -> list[str | int]:
        """Return the form held in graph state and in checkpoints."""
        return [self.kind, self.text, self.t]

    @classmethod
    def from_list(cls, row: Sequence[Any]) -> "Event":
        """Read :meth:`to_list` back."""
        return cls(row[0], str(row[1]), int(row[2]))
