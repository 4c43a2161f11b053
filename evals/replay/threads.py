"""Replay of one recorded thread: the prompt that each arm would have sent at each model call."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.messages.utils import trim_messages

from stategate.envs.messages.history import tokens_of
from stategate.evals.replay.billing import Bill
from stategate.nodes.build_context.messages.audit import Audit, untouched
from stategate.nodes.build_context.messages.context import HistoryContext
from stategate.nodes.build_context.messages.decisions import Decisions
from stategate.stores.errors import UserError
from stategate.stores.tokens import count_tokens

#: The arms that are no context kind of ours: the messages as they are, and LangChain's two edits.
NOTHING, LAST, CLEAR = "nothing", "last", "clear"
#: From the history before a call and the system message to the messages shown, with an audit if ours.
Arm = Callable[
    [Sequence[BaseMessage], SystemMessage | None], tuple[Sequence[BaseMessage], Audit | None]
]


@dataclass(frozen=True)
class Reading:
    """The prompt of one call under one arm; ``dollars`` is the call's own share of the bill."""

    messages: tuple[BaseMessage, ...]
    audit: Audit
    dollars: dict[str, float]


@dataclass
class Replay:
    """One arm over all calls of a thread."""

    kind: str
    readings: list[Reading] = field(default_factory=list)
    bill: Bill = field(default_factory=lambda: Bill(0))
    seconds: float = 0.0

    @property
    def dollars(self) -> dict[str, float]:
        """The whole bill, by biller."""
        return dict(self.bill.dollars)

    @property
    def tokens(self) -> int:
        """Tokens that all calls together read."""
        return sum(reading.audit.tokens_after for reading in self.readings)


def sizes(messages: Sequence[BaseMessage]) -> int:
    """Return the tokens of messages together."""
    return sum(tokens_of(message, count_tokens) for message in messages)


def trimmed(messages: Sequence[BaseMessage], budget: int) -> list[BaseMessage]:
    """Return the first message and the newest ones that fit (LangChain's ``trim_messages``)."""
    first, rest = list(messages[:1]), list(messages[1:])
    recent = trim_messages(
        rest,
        max_tokens=budget - sizes(first),
        token_counter=sizes,
        strategy="last",
        start_on="ai",
    )
    return [*first, *(recent or rest[-2:])]  # a round that is too large alone stays


def arm_of(kind: str, budget: int, settings: Mapping[str, Any] | None = None) -> Arm:
    """Return a fresh arm for one thread. Raises ``UserError`` for an unknown context kind."""
    if kind == NOTHING:
        return lambda history, system: (history, None)
    if kind == LAST:
        return lambda history, system: (trimmed(history, budget), None)
    if kind == CLEAR:
        return lambda history, system: (_cleared(history, budget), None)
    context, decisions = HistoryContext(kind, budget, **(settings or {})), [Decisions()]

    def show(
        history: Sequence[BaseMessage], system: SystemMessage | None
    ) -> tuple[Sequence[BaseMessage], Audit]:
        result = context(history, decisions[0], system)
        decisions[0] = result.decisions or decisions[0]
        return result.messages, result.audit

    return show


def _cleared(messages: Sequence[BaseMessage], budget: int) -> list[BaseMessage]:
    prompt: list[Any] = list(messages)
    ClearToolUsesEdit(trigger=budget, keep=3).apply(prompt, count_tokens=sizes)
    return prompt


def calls_in(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the places of the messages that a model said: each was one call."""
    return [i for i, message in enumerate(messages) if isinstance(message, AIMessage) and i]


def replay(messages: Sequence[BaseMessage], kind: str, budget: int, **settings: Any) -> Replay:
    """Return what arm ``kind`` would have shown at each call of the thread.

    Raises ``UserError`` for an unknown kind, or a thread in which no model said anything.
    """
    places = calls_in(messages)
    if not places:
        raise UserError("no model said anything in this thread: there is no call to look at")
    system = messages[0] if isinstance(messages[0], SystemMessage) else None
    start = int(system is not None)
    arm, done = arm_of(kind, budget, settings), Replay(kind)
    for place in places:
        started = time.perf_counter()
        prompt, audit = arm(messages[start:place], system)
        done.seconds += time.perf_counter() - started
        before, read = dict(done.bill.dollars), done.bill.read
        done.bill.call([*([system] if system else []), *prompt], messages[place])
        if audit is None:
            audit = untouched(kind, budget, done.bill.read - read, "")
        spent = {biller: done.bill.dollars[biller] - before[biller] for biller in before}
        done.readings.append(Reading(tuple(prompt), audit, spent))
    return done
