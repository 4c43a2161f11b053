"""How a history is shown, what was decided of it, and what one call gets: the data of ``decide``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage

from stategate.nodes.build_context.messages.audit import Audit

#: The tool that shows a shortened result whole.
RECALL = "recall"


@dataclass(frozen=True)
class Settings:
    """How a history is shown.

    ``budget`` (tokens, system message and tools included) is the high watermark, ``low`` the share of
    it that one cut goes down to. ``fresh`` is what a new result may have at most. ``tail`` is what
    may be brought back of earlier results after the newest. ``newest`` keeps only so many of the last
    results in a cut. ``with_recall`` says whether notes name the way back. New results of the tools
    ``whole`` are not shortened before a cut.
    """

    kind: str
    budget: int
    low: float = 0.5
    fresh: int = 1000
    tail: int = 0
    newest: int | None = None
    with_recall: bool = True
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Decisions:
    """What was decided so far, as plain values for a checkpoint; bounded by the budget.

    ``frozen`` holds for results that are not shown whole the checksum of the original and the text
    shown, ``tails`` the text after a message. Rounds before the message ``floor`` are left out.
    ``recurrent`` is the state of an updater that has read ``read`` messages.
    """

    frozen: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    tails: Mapping[str, str] = field(default_factory=dict)
    floor: str = ""
    cuts: int = 0
    recurrent: Any = None
    read: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the form that is held in graph state."""
        return {
            "frozen": {key: [check, text] for key, (check, text) in self.frozen.items()},
            "tails": dict(self.tails),
            "floor": self.floor,
            "cuts": self.cuts,
            "recurrent": self.recurrent,
            "read": self.read,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any] | None) -> "Decisions":
        """Read :meth:`plain` back; None is no decisions, and neither is what nobody can read."""
        if not plain:
            return cls()
        try:
            frozen = {key: (int(row[0]), str(row[1])) for key, row in plain["frozen"].items()}
            rest = (plain[name] for name in ("tails", "floor", "cuts", "recurrent", "read"))
            return cls(frozen, *rest)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return cls()  # of another version: everything is decided anew


@dataclass(frozen=True)
class Shown:
    """The messages of one call, the decisions to keep for the next, and the audit."""

    messages: tuple[BaseMessage, ...]
    decisions: Decisions | None
    audit: Audit
