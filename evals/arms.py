"""The arms of a replay: what each call of a recorded thread would have read.

An arm is named ``KIND@BUDGET:FIELD=VALUE:…``; all but the kind may be left out. Kinds are context kinds
of ours, ``nothing``, ``last`` (``trim_messages``), ``clear`` (``ClearToolUsesEdit``), ``mask`` (all
results but the last ``keep``), ``summary`` (older messages become one) and ``oracle``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import trim_messages

from stategate.envs.messages.history import bounded, rounds_of, text_of, tokens_of, with_text
from stategate.envs.messages.needs import needed_parts
from stategate.envs.messages.reading import spans
from stategate.evals.settings import LEAST_BUDGET
from stategate.nodes.build_context.messages.decisions import Audit, Decisions
from stategate.nodes.build_context.messages.parts import rendered
from stategate.nodes.build_context.messages.planner import HistoryPlanner
from stategate.stores.errors import UserError
from stategate.stores.files import read_pair
from stategate.stores.tokens import truncate

_OTHERS = "nothing last clear mask summary oracle".split()  # that are no kinds of ours
NOTHING, LAST, CLEAR, MASK, SUMMARY, ORACLE = _OTHERS
SUMMARY_TOKENS = 300
Messages = Sequence[BaseMessage]


@dataclass(frozen=True)
class Reading:
    """The prompt of one call under one arm; ``summarised`` tokens were read by a summariser first."""

    messages: Messages
    audit: Audit
    summarised: int = 0


#: Returns what the next call of a thread reads of its history, beside the system message.
Arm = Callable[[list[BaseMessage], SystemMessage | None], Reading]


def make_arm(name: str, budget: int, thread: Messages = ()) -> Arm:
    """Return the arm of a name for one thread, which the oracle sees as a whole.

    Raises ``UserError`` for an unknown kind or a wrong setting.
    """
    head, _, fields = name.partition(":")
    kind, _, own_budget = head.partition("@")
    form = "an arm as KIND@BUDGET:FIELD=VALUE:…"
    settings = dict(read_pair(item, form) for item in filter(None, fields.split(":")))
    if own_budget and not (own_budget.isdecimal() and int(own_budget) >= LEAST_BUDGET):
        raise UserError(f"the budget of arm '{name}' should be at least {LEAST_BUDGET} tokens")
    budget = int(own_budget) if own_budget else budget
    keep = settings.pop("keep", 3) if kind in (CLEAR, MASK) else 3
    if kind in _OTHERS and (settings or not isinstance(keep, int)):
        raise UserError(f"arm '{name}': only clear and mask take a field, keep=NUMBER")
    edits: dict[str, Callable[[list[BaseMessage]], Messages]] = {
        NOTHING: list,
        LAST: partial(_trim, budget=budget),
        CLEAR: partial(_clear, trigger=budget, keep=keep),
        MASK: partial(_clear, trigger=0, keep=keep, placeholder="[old result]"),
    }
    if kind == SUMMARY:
        return _summarizer(budget)
    if kind == ORACLE:
        return _oracle(budget, thread)
    if kind not in edits:
        return _builder(kind, budget, settings)
    return lambda history, system: _reading(kind, budget, system, edits[kind](history))


def sizes(messages: Messages) -> int:
    """Return the tokens of messages together."""
    return sum(tokens_of(message) for message in messages)


def _reading(
    kind: str, budget: int, system: SystemMessage | None, messages: Messages, summarised: int = 0
) -> Reading:
    read = sizes([*([system] if system else []), *messages])
    return Reading(messages, Audit(kind, budget, read, read), summarised)


def _builder(kind: str, budget: int, settings: dict[str, Any]) -> Arm:
    """Return a context kind of ours, as the middleware runs it."""
    planner, decisions = HistoryPlanner(kind, budget, **settings), Decisions()

    def read(history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        nonlocal decisions
        prepared = planner(history, decisions, system)
        decisions = prepared.decisions or decisions
        return Reading(prepared.messages, prepared.audit)

    return read


def _trim(history: list[BaseMessage], budget: int) -> Messages:
    first, others = history[:1], history[1:]
    room = budget - sizes(first)
    how: dict[str, Any] = {"strategy": "last", "start_on": "ai", "token_counter": sizes}
    recent = trim_messages(others, max_tokens=room, **how)
    return [*first, *(recent or others[-2:])]  # a round that is too large alone stays


def _clear(history: list[BaseMessage], **settings: Any) -> Messages:
    edited = [message.model_copy() for message in history]
    ClearToolUsesEdit(**settings).apply(edited, count_tokens=sizes)  # type: ignore[arg-type]
    return edited


def _summarizer(budget: int) -> Arm:
    """Return the arm whose older messages become one summary (by a rule: their first words)."""
    start = 0
    summary: list[BaseMessage] = []

    def read(history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        nonlocal start, summary
        visible = [*summary, *history[start:]]
        starts = [round_.start for round_ in rounds_of(history)]
        cut = next((place for place in starts if sizes(history[place:]) <= budget // 2), starts[-1])
        if sizes(visible) <= budget or cut <= start:
            return _reading(SUMMARY, budget, system, visible)
        summarised = sizes(visible) - sizes(history[cut:])
        heads = (" ".join(text_of(m).split())[:80] for m in history[:cut])
        text = truncate("Summary: " + "; ".join(filter(None, heads)), SUMMARY_TOKENS)
        start, summary = cut, [HumanMessage(text)]
        return _reading(SUMMARY, budget, system, [*summary, *history[start:]], summarised)

    return read


def _oracle(budget: int, thread: Messages) -> Arm:
    """Return the lower bound: of each result exactly the parts from which later calls take a value.

    It knows the future. A value that stands in several parts is kept in the first.
    """
    chosen: dict[int, set[int]] = {}
    for _, _, holders in needed_parts(thread):
        for place, number in holders[:1]:
            chosen.setdefault(place, set()).add(number)
    reduced: dict[int, BaseMessage] = {}
    for place, message in enumerate(thread):
        if isinstance(message, ToolMessage):
            text = bounded(text_of(message))
            visible = {i: spans(text)[i].visible_text for i in chosen.get(place, ())}
            reduced[place] = with_text(message, rendered("", text, visible, ""))

    def read(history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        offset = int(system is not None)
        visible = [reduced.get(i + offset, message) for i, message in enumerate(history)]
        return _reading(ORACLE, budget, system, visible)

    return read
