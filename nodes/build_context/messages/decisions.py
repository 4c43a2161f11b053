"""How a history is shown, what was decided of it, and what one call gets: the data of ``decide``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stategate.envs.messages.history import Count
from stategate.nodes.build_context.messages.audit import Audit
from stategate.stores.errors import UserError

#: The tool that shows a shortened result whole.
RECALL = "recall"


#: What settings were called before, for one release.
RENAMED = {
    "low": "low_watermark",
    "fresh": "max_new_result",
    "tail": "appendix_tokens",
    "whole": "keep_whole",
}


class HistorySettings(BaseModel):
    """How a history is shown to a model: the settings of ``ContextMiddleware``.

    What is no setting of ours (``parameters``) goes to the context kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    kind: str = Field("compress", description="context kind (`stategate kinds context`)")
    budget: int = Field(
        16_000, ge=1, description="tokens of the whole prompt, tools and system message included"
    )
    updater: Any = Field(None, description='recurrent state for kinds that read it, as "gru"')
    embedder: Any = Field("minilm", description="embedder of kinds that compare meanings")
    low_watermark: float = Field(
        0.5, gt=0, le=1, description="share of the budget that a cut goes down to"
    )
    max_new_result: int | None = Field(
        None, description="tokens of a new result (default: a fortieth of the budget)"
    )
    appendix_tokens: int | None = Field(
        None,
        description="tokens that may bring back what the newest messages name "
        "(default: none where the agent can recall it)",
    )
    keep_whole: frozenset[str] = Field(
        frozenset(), description="tools whose new results are shown whole until a cut"
    )
    recall: bool = Field(True, description="give the agent a tool that shows a result whole")
    token_counter: Count | None = Field(None, description="counts tokens in place of the model's")
    parameters: dict[str, Any] = Field(default_factory=dict, description="of the context kind")

    @classmethod
    def of(cls, kind: str, budget: int, settings: Mapping[str, Any]) -> "HistorySettings":
        """Return the settings; names that are not ours are parameters of the kind.

        Raises ``UserError`` for a wrong value.
        """
        ours = {RENAMED.get(name, name): value for name, value in settings.items()}
        known = {name: ours.pop(name) for name in list(ours) if name in cls.model_fields}
        parameters = {**known.pop("parameters", {}), **ours}
        try:
            return cls(kind=kind, budget=budget, parameters=parameters, **known)
        except ValidationError as error:
            wrong = error.errors()[0]
            name = ".".join(map(str, wrong["loc"]))
            raise UserError(f"ContextMiddleware({name}=…): {wrong['msg']}") from None


@dataclass(frozen=True)
class Limits:
    """Settings of one context kind with their defaults resolved; ``newest`` keeps the last results."""

    kind: str
    budget: int
    low_watermark: float = 0.5
    max_new_result: int = 1000
    appendix_tokens: int = 0
    newest: int | None = None
    with_recall: bool = True
    keep_whole: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Decisions:
    """What was decided so far, as plain values for a checkpoint; bounded by the budget.

    ``frozen`` holds for results that are not shown whole the checksum of the original and the text
    shown, ``appendices`` the text after a message. Rounds before ``window_start`` are left out.
    ``recurrent`` is the state of an updater that has read ``read`` messages.
    """

    frozen: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    appendices: Mapping[str, str] = field(default_factory=dict)
    window_start: str = ""
    cuts: int = 0
    recurrent: Any = None
    read: int = 0

    def plain(self) -> dict[str, Any]:
        """Return the form that is held in graph state."""
        return {
            "frozen": {key: [check, text] for key, (check, text) in self.frozen.items()},
            "appendices": dict(self.appendices),
            "window_start": self.window_start,
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
            rest = (
                plain[name] for name in ("appendices", "window_start", "cuts", "recurrent", "read")
            )
            return cls(frozen, *rest)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return cls()  # of another version: everything is decided anew


@dataclass(frozen=True)
class Shown:
    """The messages of one call, the decisions to keep for the next, and the audit."""

    messages: tuple[BaseMessage, ...]
    decisions: Decisions | None
    audit: Audit
