"""What happens in an episode: events, and what became of each context (kept by ``traces.store``)."""

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


@dataclass(frozen=True)
class ContextPiece:
    """What became of one chunk in the context that step ``t`` was decided from, without its text.

    ``score`` is the builder's own, such as a document's weight (None if it does not score).
    ``tokens_before`` is the chunk's size, ``tokens_after`` what was shown of it (0: nothing).
    """

    t: int
    id: str
    kind: str
    score: float | None
    tokens_before: int
    tokens_after: int
