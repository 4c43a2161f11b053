"""Recorded threads under each arm: tokens, the billed cost, and whether what calls needed was shown.

A call *needs* every value of its arguments that stands in an earlier tool result (words of three
letters or more). ``needs_shown`` is the share of them that the prompt of that call still shows. A
recorded agent cannot react to a shorter prompt, so this is no success rate.
"""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stategate.envs.messages.history import text_of
from stategate.evals.core.statistics import paired_tests, summary_row, units_of
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.replay.threads import arm_of, calls_in, replay
from stategate.evals.settings import Replay
from stategate.graph.exported import from_plain
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.runs import public_path

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


def run_replay(settings: Replay) -> dict[str, Any]:
    """Replay the threads of ``data`` under each arm; resumes. Tests are against the first arm."""
    arms, budget = settings.arms, settings.budget
    threads = read_threads(settings.data)[: settings.limit]
    for arm in arms:
        arm_of(arm, budget)
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
