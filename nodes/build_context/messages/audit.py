"""What became of each message in one call: streamed as an event, kept with traces, drawn by the app."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

#: What became of a message: shown with less text, as a note alone, or not at all.
Fate = Literal["shortened", "note", "left out", "orphan"]


@dataclass(frozen=True)
class Row:
    """One message. ``score`` is the builder's best of its parts, ``parts`` how many it has.

    ``name`` is what ``recall`` takes. ``why`` says which rule or which builder decided.
    """

    key: str
    name: str
    role: str
    label: str
    fate: Fate
    tokens_before: int
    tokens_after: int
    parts: int = 1
    parts_shown: int = 1
    score: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Audit:
    """One call: tokens of its prompt (tools and system message included), and what became of messages.

    ``rows`` are those that are not shown whole, ``whole`` counts the others. ``over_by`` is by how many
    tokens the budget could not be held (0: it holds). ``problem`` says why the messages went through
    untouched.
    """

    kind: str
    budget: int
    tokens_before: int
    tokens_after: int
    fixed: int = 0
    over_by: int = 0
    is_cut: bool = False
    appendix: str = ""
    seconds: float = 0.0
    problem: str = ""
    whole: int = 0
    rows: tuple[Row, ...] = ()

    def told(self) -> dict[str, Any]:
        """Return the audit as plain values."""
        return {"type": "stategate.context", **asdict(self)}

    def metadata(self) -> dict[str, Any]:
        """Return the few numbers that a trace is searched by."""
        return {
            "stategate_kind": self.kind,
            "stategate_tokens_before": self.tokens_before,
            "stategate_tokens_after": self.tokens_after,
            "stategate_shortened": sum(row.fate in ("shortened", "note") for row in self.rows),
            "stategate_left_out": sum(row.fate in ("left out", "orphan") for row in self.rows),
            "stategate_over_by": self.over_by,
            "stategate_cut": self.is_cut,
            **({"stategate_problem": self.problem} if self.problem else {}),
        }

    def timed(self, seconds: float) -> "Audit":
        """Return the audit with the time that the decision took."""
        return replace(self, seconds=round(seconds, 6))


def untouched(kind: str, budget: int, tokens: int, problem: str) -> Audit:
    """Return the audit of a call whose messages went through as they are."""
    return Audit(kind, budget, tokens, tokens, over_by=max(tokens - budget, 0), problem=problem)
