"""The data of ``planner``: settings, decisions between calls, and the prepared call with its audit."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from pydantic import BaseModel, ConfigDict, Field

#: The tool that shows a shortened result whole.
RECALL = "recall"
#: Its name where the agent has a tool of that name.
OTHER_RECALL = "recall_message"
#: In a message's metadata: it stays whole.
PINNED = "stategate_pin"


class HistorySettings(BaseModel):
    """The settings of ``ContextMiddleware``; others are parameters of the context kind."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str = Field("compress", description="context kind (`stategate kinds context`)")
    budget: int = Field(
        16_000, ge=1, description="tokens of the whole prompt, tools and system message included"
    )
    embedder: Any = Field("minilm", description="embedder of kinds that compare meanings")
    low_watermark: float = Field(
        0.5,
        gt=0,
        le=1,
        description="share of what tools and system message leave that a cut goes down to",
    )
    max_new_result: int | None = Field(
        None,
        ge=0,
        description="tokens of a new result (default: a quarter of the budget where `need` ranks its "
        "parts, else a fortieth)",
    )
    need: str = Field(
        "need",
        description="checkpoint by which `compress` ranks (`stategate train need`); '' ranks by words",
    )
    pin: frozenset[str] | Callable[[BaseMessage], object] = Field(
        frozenset(), description="messages that always stay whole: ids, or a function of a message"
    )
    keep_whole: frozenset[str] = Field(
        frozenset(), description="tools whose new results are shown whole until a cut"
    )
    recall: bool = Field(True, description="give the agent a tool that shows a result whole")
    timeout: float = Field(5.0, gt=0, description="seconds after which a call reads it all")

    def is_pinned(self, message: BaseMessage) -> bool:
        """Say whether a message stays whole: by ``pin``, or by ``PINNED`` in its metadata."""
        if message.response_metadata.get(PINNED) or message.additional_kwargs.get(PINNED):
            return True
        return bool(self.pin(message)) if callable(self.pin) else message.id in self.pin


@dataclass(frozen=True)
class Decisions:
    """The decisions so far, as plain values for a checkpoint; the budget bounds their texts.

    ``frozen`` holds the checksum of the original and the visible text of each shortened result,
    ``left_out`` the keys of messages that are not shown at all. ``restored`` stay whole.
    """

    frozen: Mapping[str, list[Any]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    cuts: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the form that is held in graph state."""
        return dict(vars(self))

    @classmethod
    def of(cls, plain: Mapping[str, Any] | None) -> "Decisions":
        """Read :meth:`plain` back; None is no decisions, and another version's fields are ignored."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in (plain or {}).items() if name in known})


Fate = Literal["whole", "shortened", "note", "left out", "orphan"]


@dataclass(frozen=True)
class Row:
    """The fate of one message: shortened, reduced to a note, or left out.

    ``name`` is the argument of ``recall``. ``why`` names the rule or the builder that decided.
    """

    key: str
    name: str
    role: str
    fate: Fate
    tokens_before: int
    tokens_after: int
    why: str


@dataclass(frozen=True)
class Audit:
    """One call: tokens of its prompt (tools and system message included), and its messages' fates.

    ``rows`` are the messages that are not shown whole, ``whole`` counts the others. ``over_by`` is the
    number of tokens above the budget. ``problem`` says why the messages went through untouched.
    """

    kind: str
    budget: int
    tokens_before: int
    tokens_after: int
    fixed: int = 0
    is_cut: bool = False
    seconds: float = 0.0
    problem: str = ""
    whole: int = 0
    rows: tuple[Row, ...] = ()

    @property
    def over_by(self) -> int:
        """Tokens by which the budget is passed."""
        return max(self.tokens_after - self.budget, 0)

    def as_dict(self) -> dict[str, Any]:
        """Return the audit as plain values."""
        return {"type": "stategate.context", **asdict(self), "over_by": self.over_by}


@dataclass(frozen=True)
class PreparedCall:
    """The messages of one call, the decisions to keep for the next, and the audit."""

    messages: tuple[BaseMessage, ...]
    decisions: Decisions | None
    audit: Audit
