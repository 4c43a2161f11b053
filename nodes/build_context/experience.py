"""``experience``: another builder's context, and what was learned in like situations before.

In ``state`` mode each step's state is looked up in a state bank: one embedding, cosine, the best of
ten, no model call. In ``trace`` mode the task is looked up in a trace bank once an episode. The advice
is a message of its own after the inner context, made anew each step, so last step's is gone; the inner
builder gets the budget that the advice leaves.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from langchain_core.messages import HumanMessage
from pydantic import Field, SerializeAsAny, field_validator

from nodes.build_context.render import one_line
from nodes.experience.advice import Advice, StateAdvisor
from nodes.experience.trace_advice import TraceAdvisor
from nodes.protocols import BuiltContext, ContextBuilder, ContextParams, ContextRequest, Piece
from nodes.registry import registry
from stores.tokens import count_tokens, truncate

if TYPE_CHECKING:
    from nodes.resources import Resources

_SHARE = 4  # advice may have this part of the budget at most


class Experience(ContextParams):
    """Wrap ``inner`` and add the best advice of a bank (see ``stategate bank``)."""

    kind: Literal["experience"] = "experience"
    mode: Literal["state", "trace"] = Field(
        default="state", description="advice for each step, or for the whole task"
    )
    inner: SerializeAsAny[ContextParams] = Field(
        default={"kind": "full"},
        validate_default=True,
        description="the builder that shows the page",
    )
    bank: str | None = Field(
        default=None, description="folder; by default banks/state or banks/trace in $STATEGATE_HOME"
    )
    key: Literal["text", "state", "both"] = Field(
        default="text", description="find states by their text, the recurrent state, or both"
    )
    top_k: int = Field(default=10, ge=1, le=100, description="states looked at (state mode)")
    min_q: float = Field(default=5.0, ge=0, le=10, description="worth that advice must have")
    min_score: float = Field(default=0.1, ge=-1, le=1, description="likeness it must have")
    gate: Literal["none", "fits", "agrees", "alike"] = Field(
        default="none",
        description="'fits': the page offers the move; 'agrees': and the like states favour it; "
        "'alike': it fits, and only states in the same kind of situation count",
    )
    pick: Literal["best", "vote", "proven", "random"] = Field(
        default="best",
        description="the nearest state's advice; 'vote': that of the move of most mean worth among "
        "the top_k; 'proven': of the move that beat other moves of the same past tasks; 'random': "
        "any row of the bank, a control",
    )
    margin: float = Field(
        default=0.5,
        ge=0,
        description="worth by which a move must beat the others (agrees, vote, proven)",
    )
    foreseen: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="chance that the learned state must give the kind of action advised; 0: any",
    )
    shuffle_q: bool = Field(default=False, description="a control: worths dealt out at random")
    advice_tokens: int = Field(default=120, ge=8, description="tokens the advice may have")
    traces: int = Field(default=3, ge=1, le=20, description="past tasks told (trace mode)")
    rewrites: int = Field(default=0, ge=0, le=5, description="rewordings asked of the model")
    rerank: Literal["none", "endpoint", "cross_encoder"] = "none"
    rerank_url: str = Field(default="", description="a /v1/rerank endpoint, such as vLLM's")
    rerank_model: str = ""
    summarise: bool = Field(default=False, description="have the model sum the found traces up")
    rounds: int = Field(
        default=1, ge=1, le=3, description="searches; above 1 the model says when it is enough"
    )
    seed: int = Field(default=0, description="of the controls")

    @field_validator("inner", mode="before")
    @classmethod
    def _parse_inner(cls, value: Any) -> Any:
        return registry().parse("context", value)

    def build(self, resources: "Resources") -> ContextBuilder:
        """Open the bank and build ``inner``. Raises ``UserError`` where the bank does not fit."""
        advisor: Advisor
        if self.mode == "state":
            advisor = StateAdvisor(self, resources)
        else:
            advisor = TraceAdvisor(self, resources)
        return ExperienceBuilder(self, resources.get(self.inner), advisor)


class Advisor(Protocol):
    """Find advice for the situation of a request; None where there is none worth giving."""

    def __call__(self, request: ContextRequest) -> Advice | None:
        """Return advice, or None; same request and same bank, same advice."""
        ...


class ExperienceBuilder:
    """The wrapped builder."""

    def __init__(self, params: Experience, inner: ContextBuilder, advisor: Advisor) -> None:
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
        text = one_line(line) + "\n"
        before = count_tokens(text)
        if before > room:
            cut = truncate(text, max(room - 1, 0)).rstrip() if i == 0 else ""
            text = cut + "\n" if len(cut) > len("Experience:") + 12 else ""
            text = text if count_tokens(text) <= room else ""
        after = count_tokens(text)
        room -= after
        name = advice.rows[i] if i < len(advice.rows) else str(i)
        pieces.append(
            Piece(f"experience:{name}", "experience", text, (), before, after, advice.score)
        )
    notes = [Piece(f"fallback:{note}", "fallback", "", (), 0, 0) for note in advice.fallbacks]
    return [*pieces, *notes]
