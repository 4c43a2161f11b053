"""Events, and the store that keeps every event of every episode."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

EventKind = Literal["OBS", "ACT", "REWARD", "DONE", "ERROR"]


@dataclass(frozen=True)
class Event:
    """One thing that happened: ``t`` is the step (from 0) in which it did."""

    kind: EventKind
    text: str
    t: int

    def to_list(self) -> list[Any]:
        """Return the form held in graph state and in checkpoints."""
        return [self.kind, self.text, self.t]

    @classmethod
    def from_list(cls, row: Sequence[Any]) -> "Event":
        """Read :meth:`to_list` back."""
        return cls(row[0], str(row[1]), int(row[2]))


def __getattr__(name: str) -> Any:
    if name == "TraceStore":  # the store imports Event from here
        from stores.trace_store import TraceStore

        return TraceStore
    raise AttributeError(f"module 'stores.traces' has no attribute '{name}'")
