"""What the two experience builders share: another builder's context, and advice from the past after it.

The advice is a message of its own after the inner context, made anew each step, so last step's is gone;
the inner builder gets the budget that the advice leaves.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.messages import HumanMessage
from pydantic import Field, SerializeAsAny, field_validator

from nodes.protocols import BuiltContext, ContextBuilder, ContextParams, ContextRequest, Piece
from nodes.registry import registry
from stores.text import one_line
from stores.tokens import count_tokens, truncate

if TYPE_CHECKING:
    from nodes.resources import Resources

LEAD = "Experience: "
_SHARE = 4  # advice may have this part of the budget at most


@dataclass(frozen=True)
class Advice:
    """Lines to show, the ids of the rows behind them, their likeness, and what did not work."""

    lines: tuple[str, ...]
    rows: tuple[str, ...] = ()
    score: float | None = None
    fallbacks: tuple[str, ...] = ()
    q: float | None = None
    move: str = ""


class Advisor(Protocol):
    """Find advice for the situation of a request; None where there is none worth giving."""

    def __call__(self, request: ContextRequest) -> Advice | None:
        """Return advice, or None; same request and same bank, same advice."""
        ...


class AdvisedContext(ContextParams):
    """Wrap ``inner`` and add the best advice of a bank (see ``stategate bank``)."""

    inner: SerializeAsAny[ContextParams] = Field(
        default={"kind": "full"},
        validate_default=True,
        description="the builder that shows the page",
    )
    bank: str | None = Field(
        default=None, description="folder; by default banks/state or banks/trace in $STATEGATE_HOME"
    )
    min_q: float = Field(default=5.0, ge=0, le=10, description="worth that advice must have")
    min_score: float = Field(default=0.1, ge=-1, le=1, description="likeness it must have")
    advice_tokens: int = Field(default=120, ge=8, description="tokens the advice may have")

    @field_validator("inner", mode="before")
    @classmethod
    def _parse_inner(cls, value: Any) -> Any:
        return registry().parse("context", value)

    def advised(self, resources: "Resources", advisor: Advisor) -> "ExperienceBuilder":
        """Return the builder that adds what ``advisor`` finds to the inner one."""
        return ExperienceBuilder(self, resources.get(self.inner), advisor)


class ExperienceBuilder:
    """The wrapped builder."""

    def __init__(self, params: AdvisedContext, inner: ContextBuilder, advisor: Advisor) -> None:
        self._params = params
        self._inner = inner
        self.advisor = advisor

    def __call__(self, request: ContextRequest) -> BuiltContext:
        """Build the inner context in what the advice leaves of the budget, and add the advice."""
        advice = self.advisor(request)
        room = min(self._params.advice_tokens, request.budget // _SHARE)
        pieces = _pieces(advice, room) if advice is not None else []
        spent = sum(piece.tokens_after for piece in pieces)
        built = self._inner(replace(request, budget=request.budget - spent))
        messages = list(built.messages)
        if spent:
            messages.append(HumanMessage("".join(piece.text for piece in pieces)))
        tokens = built.tokens + spent
        return BuiltContext(tuple(messages), (*built.pieces, *pieces), tokens, built.over_budget)


def _pieces(advice: Advice, room: int) -> list[Piece]:
    """Return the advice as pieces: its lines (whole ones that fit), then its fallbacks (no text)."""
    pieces: list[Piece] = []
    for i, line in enumerate(advice.lines):
        text = one_line(line if line.startswith(LEAD) else LEAD + line) + "\n"
        before = count_tokens(text)
        if before > room:
            cut = truncate(text, max(room - 1, 0)).rstrip() if i == 0 else ""
            text = cut + "\n" if len(cut) > len(LEAD) + 12 else ""
            text = text if count_tokens(text) <= room else ""
        after = count_tokens(text)
        room -= after
        name = advice.rows[i] if i < len(advice.rows) else str(i)
        pieces.append(
            Piece(f"experience:{name}", "experience", text, (), before, after, advice.score)
        )
    notes = [Piece(f"fallback:{note}", "fallback", "", (), 0, 0) for note in advice.fallbacks]
    return [*pieces, *notes]
