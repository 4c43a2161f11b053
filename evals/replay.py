"""Recorded threads under each arm: tokens, the billed cost, and whether what calls needed was shown.

A call *needs* every value of its arguments that stands in an earlier tool result (words of three
letters or more). ``needs_shown`` is the share of them that the prompt of that call still shows. A
recorded agent cannot react to a shorter prompt, so this is no success rate.

Bills follow the published rules of prefix caching. Anthropic: what stands before a breakpoint can be
read again at a tenth, from 1024 tokens on, in whole blocks; what is new is written to the cache at one
and a quarter. OpenAI: automatic, from 1024 tokens on in steps of 128; nothing is charged for writing.
Rates come from the public list (``cost_of``).
"""

import gzip
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import trim_messages

from stategate.envs.messages.history import text_of, tokens_of
from stategate.evals import settings as evaluations
from stategate.evals.core.statistics import paired_tests, summary_row, units_of
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.graph.exported import from_plain
from stategate.nodes.build_context.messages.decisions import Audit, Decisions, untouched
from stategate.nodes.build_context.messages.planner import HistoryPlanner
from stategate.nodes.models.asking import cost_of
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.runs import public_path
from stategate.stores.tokens import count_tokens

METRICS = (
    "needs_shown",
    "tokens_per_call",
    "cached_share",
    "dollars_anthropic",
    "dollars_openai",
    "decide_ms",
    "orphans",
    "calls",
)
_TESTED = ("needs_shown", "tokens_per_call", "dollars_anthropic")
_SHORTEST = 3  # letters of a value that a call can be said to need
_LEAST = 1024  # tokens from which a prefix is cached
_STEP = 128  # OpenAI counts a cached prefix in steps of so many


#: Who bills, and the model whose rates are taken.
BILLERS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5"}


@dataclass
class Bill:
    """US dollars by biller and tokens of one run; every prompt is compared with those before it."""

    dollars: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BILLERS, 0.0))
    read: int = 0
    cached: int = 0
    _last: list[tuple[Any, int]] = field(default_factory=list)

    def call(self, messages: Sequence[BaseMessage], answer: BaseMessage) -> None:
        """Add one call."""
        rows = [(_face(message), tokens_of(message, count_tokens)) for message in messages]
        equal = 0
        while equal < min(len(rows), len(self._last)) and rows[equal][0] == self._last[equal][0]:
            equal += 1
        tokens = sum(size for _, size in rows)
        shared = sum(size for _, size in rows[:equal])
        out = tokens_of(answer, count_tokens)
        blocks = shared if shared >= _LEAST else 0
        steps = (shared - shared % _STEP) if shared >= _LEAST else 0
        self.dollars["anthropic"] += _dollars("anthropic", tokens, out, blocks, tokens - blocks)
        self.dollars["openai"] += _dollars("openai", tokens, out, steps, 0)
        self.read += tokens
        self.cached += blocks
        self._last = rows

    def row(self, calls: int, orphans: int, seconds: float) -> dict[str, float]:
        """Return what a row says of a thread; ``seconds`` are those of all decisions together."""
        count = max(calls, 1)
        return {
            "calls": float(calls),
            "orphans": float(orphans),
            "dollars_anthropic": self.dollars["anthropic"],
            "dollars_openai": self.dollars["openai"],
            "model_tokens": float(self.read),
            "tokens_per_call": self.read / count,
            "cached_share": self.cached / max(self.read, 1),
            "decide_ms": 1000 * seconds / count,
        }


def _dollars(biller: str, tokens: int, out: int, cached: int, new: int) -> float:
    model: Any = SimpleNamespace(model_name=BILLERS[biller])  # for the public list
    if tokens < _LEAST:
        new = 0  # too short to be written to a cache
    return cost_of(model, tokens, out, cached, new) or 0.0


def _face(message: BaseMessage) -> tuple[Any, ...]:
    """Return what a provider sees of a message."""
    calls = [str(c) for c in message.tool_calls] if isinstance(message, AIMessage) else []
    answers = message.tool_call_id if isinstance(message, ToolMessage) else None
    return message.type, text_of(message), *calls, answers


#: The arms that are no context kind of ours: the messages as they are, and LangChain's two edits.
NOTHING, LAST, CLEAR = "nothing", "last", "clear"


@dataclass(frozen=True)
class Reading:
    """The prompt of one call under one arm."""

    messages: tuple[BaseMessage, ...]
    audit: Audit


@dataclass
class Replay:
    """One arm over all calls of a thread."""

    kind: str
    readings: list[Reading] = field(default_factory=list)
    bill: Bill = field(default_factory=Bill)
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


class Arm:
    """What one thread's calls read: a context kind of ours, or an edit of the messages."""

    def __init__(self, kind: str, budget: int) -> None:
        self._kind, self._budget = kind, budget
        self._decisions = Decisions()
        is_ours = kind not in (NOTHING, LAST, CLEAR)
        self._planner = HistoryPlanner(kind, budget) if is_ours else None

    def read(self, history: list[BaseMessage], system: SystemMessage | None) -> Reading:
        """Return what the next call reads of ``history``."""
        if self._planner is not None:
            result = self._planner(history, self._decisions, system)
            self._decisions = result.decisions or self._decisions
            return Reading(tuple(result.messages), result.audit)
        shown: list[Any] = history
        if self._kind == LAST:
            first, rest = history[:1], history[1:]
            room = self._budget - sizes(first)
            how: dict[str, Any] = {"strategy": "last", "start_on": "ai", "token_counter": sizes}
            recent = trim_messages(rest, max_tokens=room, **how)
            shown = [*first, *(recent or rest[-2:])]  # a round that is too large alone stays
        elif self._kind == CLEAR:
            edit = ClearToolUsesEdit(trigger=self._budget, keep=3)
            edit.apply(shown, count_tokens=sizes)
        read = sizes([*([system] if system else []), *shown])
        return Reading(tuple(shown), untouched(self._kind, self._budget, read, ""))


def calls_in(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the places of the messages that a model said: each was one call."""
    return [i for i, message in enumerate(messages) if isinstance(message, AIMessage) and i]


def replay(messages: Sequence[BaseMessage], kind: str, budget: int) -> Replay:
    """Return what arm ``kind`` would have shown at each call of the thread.

    Raises ``UserError`` for an unknown kind, or a thread in which no model said anything.
    """
    places = calls_in(messages)
    if not places:
        raise UserError("no model said anything in this thread: there is no call to look at")
    system = messages[0] if isinstance(messages[0], SystemMessage) else None
    start = int(system is not None)
    arm, done = Arm(kind, budget), Replay(kind)
    for place in places:
        started = time.perf_counter()
        reading = arm.read(list(messages[start:place]), system)
        done.seconds += time.perf_counter() - started
        done.bill.call([*([system] if system else []), *reading.messages], messages[place])
        done.readings.append(reading)
    return done


def read_threads(path: str) -> list[tuple[str, str, list[BaseMessage]]]:
    """Return (id, task, messages) of each line of a JSON-lines file (.gz too).

    A line is ``{"id", "task", "messages"}``; threads of one task hang together. Raises ``UserError``.
    """
    file = Path(path).expanduser()
    with user_error_context(f"cannot read threads from '{path}'"):
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode("utf-8")
        lines = [parse_json(line) for line in text.splitlines() if line.strip()]
    threads: dict[str, tuple[str, str, list[BaseMessage]]] = {}
    for i, line in enumerate(lines):
        record = line if isinstance(line, Mapping) else {}
        name = str(record.get("id", i))
        name = f"{name}#{i + 1}" if name in threads else name
        messages = from_plain(line, f"{path}, line {i + 1}")
        if calls_in(messages):
            threads[name] = (name, str(record.get("task", record.get("id", i))), messages)
    if not threads:
        raise UserError(f"'{path}' holds no thread in which a model said something")
    return list(threads.values())


def needs_of(call: BaseMessage, earlier: Sequence[BaseMessage]) -> set[str]:
    """Return the argument values of ``call`` that stand in the results of earlier calls."""
    results = "\n".join(text_of(m) for m in earlier if isinstance(m, ToolMessage))
    calls = call.tool_calls if isinstance(call, AIMessage) else []
    values = {value for one in calls for value in _values(one["args"])}
    return {value for value in values if len(value) >= _SHORTEST and value in results}


def _values(args: Any) -> Iterator[str]:
    """Yield the leaves of a call's arguments as text."""
    if isinstance(args, Mapping):
        args = list(args.values())
    if isinstance(args, list):
        for one in args:
            yield from _values(one)
    elif args is not None and not isinstance(args, bool):
        yield str(args)


def measure(messages: Sequence[BaseMessage], kind: str, budget: int) -> Row:
    """Return the metrics of one thread under one arm; no ``needs_shown`` where no call needs any."""
    done = replay(messages, kind, budget)
    needed = covered = orphans = 0
    for place, reading in zip(calls_in(messages), done.readings, strict=True):
        needs = needs_of(messages[place], messages[:place])
        prompt = "\n".join(text_of(m) for m in reading.messages)
        prompt += "\n".join(str(m.tool_calls) for m in reading.messages if isinstance(m, AIMessage))
        needed += len(needs)
        covered += sum(value in prompt for value in needs)
        orphans += orphans_in(reading.messages)
    row = done.bill.row(len(done.readings), orphans, done.seconds)
    return {**row, **({"needs_shown": covered / needed} if needed else {}), "needs": needed}


def orphans_in(messages: Sequence[BaseMessage]) -> int:
    """Count results without their call, and calls without their result, as a provider would."""
    waiting: set[str] = set()
    count = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            count += message.tool_call_id not in waiting
            waiting.discard(message.tool_call_id)
        else:
            count += len(waiting)
            calls = message.tool_calls if isinstance(message, AIMessage) else []
            waiting = {str(call["id"]) for call in calls}
    return count


def run_replay(settings: evaluations.Replay) -> dict[str, Any]:
    """Replay the threads of ``data`` under each arm; resumes. Tests are against the first arm."""
    arms, budget = settings.arms, settings.budget
    threads = read_threads(settings.data)[: settings.limit]
    for arm in arms:
        Arm(arm, budget)  # an unknown kind fails here
    digest = sha256(Path(settings.data).expanduser())
    args = {**settings.args(), "data": {"name": public_path(settings.data), "sha256": digest}}
    samples = [Sample({"thread": name}, messages, [{}]) for name, _, messages in threads]
    tasks = {name: task for name, task, _ in threads}

    def solver(arm: str) -> Solver:
        def solve(sample: Sample, attempt: Attempt) -> None:
            attempt.rows[0] |= measure(sample.data, arm, budget)

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        values = units_of(rows, arms, ("thread",), METRICS)
        groups = {unit: tasks[unit[0]] for units in values.values() for unit in units}
        table = [summary_row(arm, units, METRICS, groups) for arm, units in values.items()]
        pairs = [(arms[0], arm) for arm in arms[1:]]
        return table, paired_tests(values, pairs, _TESTED, settings.seed, groups)

    task = Task(arms, lambda _: samples, solver, scorer, "threads", "thread")
    return run_task(task, settings.out, args)
