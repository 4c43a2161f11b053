"""The arms of a replay: what each call of a recorded thread would have read.

An arm is named ``KIND@BUDGET:FIELD=VALUE:…``; all but the kind may be left out. Kinds are context kinds
of ours, ``nothing``, ``last`` (``trim_messages``), ``clear`` (``ClearToolUsesEdit``), ``mask`` (all
results but the last ``keep``), ``summary`` (older messages become one) and ``oracle``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain.agents.middleware import ClearToolUsesEdit
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import trim_messages

from stategate.envs.messages.history import rounds_of, text_of, tokens_of, with_text
from stategate.envs.messages.needs import needed_parts
from stategate.nodes.build_context.messages.decisions import Audit, Decisions
from stategate.nodes.build_context.messages.parts import rendered
from stategate.nodes.build_context.messages.planner import HistoryPlanner
from stategate.nodes.retrieval.history import chunks_of, visible_text
from stategate.stores.errors import UserError
from stategate.stores.files import read_yaml
from stategate.stores.tokens import count_tokens, truncate

NOTHING, LAST, CLEAR, MASK, SUMMARY, ORACLE = "nothing last clear mask summary oracle".split()
_SUMMARY_TOKENS = 300


@dataclass(frozen=True)
class Reading:
    """The prompt of one call under one arm, and what a further call (a summariser's) read and wrote."""

    messages: tuple[BaseMessage, ...]
    audit: Audit
    extra_in: int = 0
    extra_out: int = 0


class Arm(Protocol):
    """What the calls of one thread read."""

    def begin(self, thread: Sequence[BaseMessage]) -> None:
        """See the whole thread before its first call: the oracle needs it."""

    def read(self, history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        """Return what the next call reads of ``history``."""


def make_arm(name: str, budget: int) -> Arm:
    """Return the arm of a name. Raises ``UserError`` for an unknown kind or a wrong setting."""
    head, _, fields = name.partition(":")
    kind, _, own = head.partition("@")
    settings: dict[str, Any] = {}
    for item in filter(None, fields.split(":")):
        key, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"write an arm as KIND@BUDGET:FIELD=VALUE:…, not '{name}'")
        settings[key] = read_yaml(value) if value else ""
    if own and not own.isdecimal():
        raise UserError(f"the budget of arm '{name}' is no number of tokens")
    budget = int(own) if own else budget
    if kind == ORACLE:
        return Oracle(budget)
    if kind in (NOTHING, LAST, CLEAR, MASK, SUMMARY):
        return Edit(kind, budget, int(settings.get("keep", 3)))
    return Builder(kind, budget, settings)


def sizes(messages: Sequence[BaseMessage]) -> int:
    """Return the tokens of messages together."""
    return sum(tokens_of(message, count_tokens) for message in messages)


class Builder:
    """A context kind of ours, as the middleware runs it."""

    def __init__(self, kind: str, budget: int, settings: dict[str, Any]) -> None:
        self._planner = HistoryPlanner(kind, budget, **settings)
        self._decisions = Decisions()

    def begin(self, thread: Sequence[BaseMessage]) -> None:
        """Nothing is known beforehand."""

    def read(self, history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        """Return what the planner shows."""
        prepared = self._planner(history, self._decisions, system)
        self._decisions = prepared.decisions or self._decisions
        return Reading(tuple(prepared.messages), prepared.audit)


class Edit:
    """An edit of the messages: none, LangChain's trimming and clearing, masking, a summary."""

    def __init__(self, kind: str, budget: int, keep: int) -> None:
        self._kind, self._budget, self._keep = kind, budget, keep
        self._summarised, self._summary = 0, ""

    def begin(self, thread: Sequence[BaseMessage]) -> None:
        """Nothing is known beforehand."""

    def read(self, history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        """Return the edited messages."""
        edited, extra = history, 0
        if self._kind == LAST:
            edited = self._trimmed(history)
        elif self._kind == CLEAR:
            edited = [message.model_copy() for message in history]
            edit = ClearToolUsesEdit(trigger=self._budget, keep=self._keep)
            edit.apply(edited, count_tokens=sizes)  # type: ignore[arg-type]
        elif self._kind == MASK:
            places = [i for i, m in enumerate(history) if isinstance(m, ToolMessage)]
            masked = set(places[: -self._keep])
            edited = [
                with_text(m, "[old result]") if i in masked and len(text_of(m)) > 12 else m
                for i, m in enumerate(history)
            ]
        elif self._kind == SUMMARY:
            edited, extra = self._summarising(history)
        read = sizes([*([system] if system else []), *edited])
        audit = Audit(self._kind, self._budget, read, read)
        return Reading(tuple(edited), audit, extra, _SUMMARY_TOKENS if extra else 0)

    def _trimmed(self, history: list[BaseMessage]) -> list[BaseMessage]:
        first, others = history[:1], history[1:]
        room = self._budget - sizes(first)
        how: dict[str, Any] = {"strategy": "last", "start_on": "ai", "token_counter": sizes}
        recent = trim_messages(others, max_tokens=room, **how)
        return [*first, *(recent or others[-2:])]  # a round that is too large alone stays

    def _summarising(self, history: list[BaseMessage]) -> tuple[list[BaseMessage], int]:
        """Return the summary with what came after it, and what a summariser read just now."""
        extra = 0
        visible = self._after_summary(history)
        if sizes(visible) > self._budget:
            rounds = rounds_of(history)
            start = self._summarised
            for round_ in rounds:
                if sizes(history[round_.start :]) <= self._budget // 2 or round_ is rounds[-1]:
                    start = max(start, round_.start)
                    break
            if start > self._summarised:
                extra = sizes(visible) - sizes(history[start:])
                self._summarised = start
                heads = (" ".join(text_of(m).split())[:80] for m in history[:start])
                self._summary = truncate(
                    "Summary: " + "; ".join(filter(None, heads)), _SUMMARY_TOKENS
                )
                visible = self._after_summary(history)
        return visible, extra

    def _after_summary(self, history: list[BaseMessage]) -> list[BaseMessage]:
        head: list[BaseMessage] = [HumanMessage(self._summary)] if self._summary else []
        return [*head, *history[self._summarised :]]


class Oracle:
    """Keeps of each result exactly the parts from which later calls take a value: the frontier.

    It knows the future. A value that stands in several parts is kept in the first.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._reduced: dict[int, BaseMessage] = {}

    def begin(self, thread: Sequence[BaseMessage]) -> None:
        """Choose the parts."""
        chosen: dict[int, set[int]] = {}
        for _, _, holders in needed_parts(thread):
            for place, number in holders[:1]:
                chosen.setdefault(place, set()).add(number)
        for place, message in enumerate(thread):
            if isinstance(message, ToolMessage):
                text = text_of(message)
                chunks = chunks_of(str(place), text)
                shown = {chunks[i].id: visible_text(chunks[i]) for i in chosen.get(place, ())}
                rendering = rendered("", text, chunks, shown, "", count_tokens)
                self._reduced[place] = with_text(message, rendering.text)

    def read(self, history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        """Return the messages with the parts that were chosen."""
        start = int(system is not None)
        visible = [self._reduced.get(i + start, message) for i, message in enumerate(history)]
        read = sizes([*([system] if system else []), *visible])
        return Reading(tuple(visible), Audit(ORACLE, self._budget, read, read))
