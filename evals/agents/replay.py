"""A thread that was, read again: what each builder would have shown at each call, and at what cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from stategate.evals.agents.billing import Bill
from stategate.nodes.build_context.messages.audit import Audit, untouched
from stategate.nodes.build_context.messages.context import HistoryContext
from stategate.nodes.build_context.messages.decisions import Decisions
from stategate.stores.errors import UserError

#: Stands for the messages as they are.
NOTHING = "nothing"


@dataclass(frozen=True)
class Reading:
    """What one call would have read through one builder; ``dollars`` is its own share of the bill."""

    messages: tuple[BaseMessage, ...]
    audit: Audit
    dollars: dict[str, float]


@dataclass
class Replay:
    """One builder over all calls of a thread."""

    kind: str
    readings: list[Reading] = field(default_factory=list)

    @property
    def dollars(self) -> dict[str, float]:
        """The whole bill, by biller."""
        totals: dict[str, float] = {}
        for reading in self.readings:
            for biller, amount in reading.dollars.items():
                totals[biller] = totals.get(biller, 0.0) + amount
        return totals

    @property
    def tokens(self) -> int:
        """Tokens that all calls together read."""
        return sum(reading.audit.tokens_after for reading in self.readings)


def calls_in(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the places of the messages that a model said: each was one call."""
    return [i for i, message in enumerate(messages) if isinstance(message, AIMessage) and i]


def replay(messages: Sequence[BaseMessage], kind: str, budget: int, **settings: Any) -> Replay:
    """Return what builder ``kind`` would have shown at each call of the thread.

    Raises ``UserError`` for an unknown kind, or a thread in which no model said anything.
    """
    places = calls_in(messages)
    if not places:
        raise UserError("no model said anything in this thread: there is no call to look at")
    system = messages[0] if isinstance(messages[0], SystemMessage) else None
    start = int(system is not None)
    context = None if kind == NOTHING else HistoryContext(kind, budget, **settings)
    bill = Bill(0)
    decisions = Decisions()
    done = Replay(kind)
    for place in places:
        history = messages[start:place]
        shown, before = tuple(history), dict(bill.dollars)
        if context is not None:
            result = context(history, decisions, system)
            shown, audit = result.messages, result.audit
            decisions = result.decisions or decisions
        read = bill.read
        bill.call([*([system] if system else []), *shown], messages[place])
        if context is None:
            audit = untouched(kind, budget, bill.read - read, "")
        spent = {biller: bill.dollars[biller] - before[biller] for biller in before}
        done.readings.append(Reading(shown, audit, spent))
    return done
