"""Recorded threads under each arm, without a model: bills, and what calls needed that was still shown.

A call *needs* the values of its arguments that stand in earlier messages (``envs.messages.needs``).
``readable`` is the share that its prompt still shows, ``readable_tool`` that of values that stand in
results alone. A recorded agent cannot react to a shorter prompt, so this is no success rate.

Bills follow the published rules of prefix caching. Anthropic: what stands before a breakpoint can be
read again at a tenth, from 1024 tokens on, in whole blocks; what is new is written to the cache at one
and a quarter. OpenAI: automatic, from 1024 tokens on in steps of 128; nothing is charged for writing.
Rates come from the public list (``cost_of``).
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from stategate.envs.messages.history import calls_of, text_of, tokens_of, tool_of, tools_called
from stategate.envs.messages.needs import calls_in, needs_of, places_of, readable_text, stands_in
from stategate.evals import settings as evaluations
from stategate.evals.arms import ORACLE, SUMMARY_TOKENS, Reading, make_arm, sizes
from stategate.evals.core.statistics import paired_tests, ratio_with_error, units_of
from stategate.evals.core.task import Row, Sample, Solver, Summary, Task
from stategate.graph.exported import read_threads
from stategate.nodes.models.calls import cost_of
from stategate.stores.assets.downloads import sha256
from stategate.stores.errors import UserError
from stategate.stores.files import user_path, write_text
from stategate.stores.runs import public_path

_TESTED = ("readable", "readable_tool", "tokens_per_call", "dollars_anthropic")
#: Metric, numerator, denominator, and whether that is the first arm's.
_RATIOS = (
    ("bill", "dollars_anthropic", "dollars_anthropic", True),
    ("readable_tool", "tool_readable", "tool_needs", False),
    ("readable", "readable_needs", "needs", False),
    ("bill_openai", "dollars_openai", "dollars_openai", True),
    ("tokens_per_call", "model_tokens", "calls", False),
    ("cached_share", "cached_tokens", "model_tokens", False),
    ("decide_ms", "decide_total_ms", "calls", False),
)
_WORST = 10  # losses of a run that are shown
_LOSSES = 6  # of a thread and arm that are written down
_LEAST = 1024  # tokens from which a prefix is cached
_STEP = 128  # OpenAI counts a cached prefix in steps of so many

#: Who bills, and the model whose rates are taken.
BILLERS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5"}


@dataclass
class Replay:
    """One arm over all calls of a thread: what each read, US dollars by biller, tokens, seconds."""

    kind: str
    readings: list[Reading] = field(default_factory=list)
    seconds: float = 0.0
    dollars: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BILLERS, 0.0))
    read: int = 0
    cached: int = 0
    _last: list[tuple[Any, int]] = field(default_factory=list)

    def bill_call(self, messages: Sequence[BaseMessage], answer: BaseMessage) -> None:
        """Add the bill of one call; its prompt is compared with the one before it."""
        rows = [(_face(message), tokens_of(message)) for message in messages]
        repeated = takewhile(lambda pair: pair[0] == pair[1], zip(rows, self._last, strict=False))
        shared = sum(size for (_, size), _ in repeated)
        tokens, out = sum(size for _, size in rows), tokens_of(answer)
        blocks = shared if shared >= _LEAST else 0
        self.dollars["anthropic"] += _dollars("anthropic", tokens, out, blocks, tokens - blocks)
        self.dollars["openai"] += _dollars("openai", tokens, out, blocks - blocks % _STEP, 0)
        self.read += tokens
        self.cached += blocks
        self._last = rows


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


def replay(messages: Sequence[BaseMessage], name: str, budget: int) -> Replay:
    """Return what arm ``name`` would have shown at each call of the thread.

    Raises ``UserError`` for an unknown kind, or a thread in which no model said anything.
    """
    places = calls_in(messages)
    if not places:
        raise UserError("no model said anything in this thread: there is no call to look at")
    system = messages[0] if isinstance(messages[0], SystemMessage) else None
    start = int(system is not None)
    read, done = make_arm(name, budget, messages), Replay(name)
    sizes(messages)  # counted once for all arms: `decide_ms` of the first would hold it
    for place in places:
        started = time.perf_counter()
        reading = read(list(messages[start:place]), system)
        done.seconds += time.perf_counter() - started
        done.bill_call([*([system] if system else []), *reading.messages], messages[place])
        for biller in BILLERS if reading.summarised else ():  # a summariser reads all of it anew
            done.dollars[biller] += _dollars(biller, reading.summarised, SUMMARY_TOKENS, 0, 0)
        done.readings.append(reading)
    return done


def measure(messages: Sequence[BaseMessage], arm: str, budget: int) -> Row:
    """Return the metrics of one thread under one arm: README's way to see a bill."""
    return metrics_of(messages, replay(messages, arm, budget))


def metrics_of(messages: Sequence[BaseMessage], done: Replay) -> Row:
    """Return the metrics of a thread that one arm has read; no shares where no call needs anything.

    ``needs`` are the values that its calls need, ``tool_needs`` those that stand in results alone, the
    readable ones of each are still shown. ``recalls`` would bring back what is lost, ``losses`` says
    where it stood.
    """
    counts: Counter[str] = Counter(needs=0, readable_needs=0, tool_needs=0, tool_readable=0)
    losses: list[str] = []
    system = messages[:1] if messages[0].type == "system" else []
    calls = len(done.readings)
    for number, (place, reading) in enumerate(
        zip(calls_in(messages), done.readings, strict=True), 1
    ):
        prompt = "\n".join(map(readable_text, [*system, *reading.messages]))
        lost = []
        for need in needs_of(messages[place], messages[:place]):
            is_shown = stands_in(need.value, prompt)
            counts.update(needs=1, readable_needs=is_shown)
            if need.tool_only:
                counts.update(tool_needs=1, tool_readable=is_shown)
                lost += [] if is_shown else [need.value]
        counts["recalls"] += _recalls(lost, messages[:place])
        losses += [_loss(value, number, messages[:place]) for value in lost]
    row: Row = {
        "calls": float(calls),
        "orphans": float(sum(orphans_in(reading.messages) for reading in done.readings)),
        **{f"dollars_{biller}": dollars for biller, dollars in done.dollars.items()},
        "model_tokens": float(done.read),
        "tokens_per_call": done.read / calls,
        "cached_share": done.cached / max(done.read, 1),
        "cached_tokens": float(done.cached),
        "decide_total_ms": 1000 * done.seconds,
        **counts,
        "losses": losses[:_LOSSES],
        "over_budget": sum(bool(reading.audit.over_by) for reading in done.readings),
    }
    if counts["needs"]:
        row["readable"] = counts["readable_needs"] / counts["needs"]
    if counts["tool_needs"]:
        row["readable_tool"] = counts["tool_readable"] / counts["tool_needs"]
    return row


def _recalls(values: Sequence[str], earlier: Sequence[BaseMessage]) -> int:
    """Return how many results must be recalled so that all ``values`` are readable again."""
    waiting, recalls = set(values), 0
    for message in reversed(earlier):
        if isinstance(message, ToolMessage) and waiting:
            there = {value for value in waiting if stands_in(value, text_of(message))}
            recalls += bool(there)
            waiting -= there
    return recalls


def _loss(value: str, call: int, earlier: Sequence[BaseMessage]) -> str:
    """Return one lost value in its place: the call that needs it, and where it stood."""
    for message in reversed(earlier):
        text = text_of(message) if isinstance(message, ToolMessage) else ""
        for at in places_of(value, text):
            before, after = text[max(at - 50, 0) : at], text[at + len(value) :][:30]
            quoted = " ".join(f"{before}>>{value}<<{after}".split())
            tool = tool_of(message, tools_called(earlier)) or "a tool"
            return f"call {call} takes '{value}' from {tool}: …{quoted}…"
    return f"call {call} takes '{value}'"


def orphans_in(messages: Sequence[BaseMessage]) -> int:
    """Count results without their call, and calls without their result, as a provider would."""
    waiting: Counter[str] = Counter()
    count = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            count += waiting[message.tool_call_id] < 1
            waiting[message.tool_call_id] -= 1
        else:
            count += (+waiting).total()
            waiting = Counter(calls_of(message))
    return count


def replay_task(settings: evaluations.Replay) -> Task:
    """Return the task: the threads of ``data`` under each arm. Tests are against the first arm.

    Its scorer writes ``frontier.png`` (bill against readable) and ``losses.txt`` beside the summary.
    """
    arms, budget = settings.arms, settings.budget
    threads = read_threads(settings.data)[: settings.limit]
    for arm in arms:
        make_arm(arm, budget)  # an unknown kind fails here
    file = user_path(settings.data.partition("#")[0])
    digest = sha256(file) if file.is_file() else ""
    args = {**settings.args(), "data": {"name": public_path(settings.data), "sha256": digest}}
    samples = [Sample({"thread": name}, messages) for name, _, messages in threads]
    tasks = {name: task for name, task, _ in threads}

    def solver(arm: str) -> Solver:
        return lambda sample, row: row.update(measure(sample.data, arm, budget))

    def scorer(rows: Sequence[Row]) -> Summary:
        values = units_of(rows, arms, "thread", _TESTED)
        pairs = [(arms[0], arm) for arm in arms[1:]]
        tests = paired_tests(values, pairs, _TESTED, settings.seed, tasks)
        table = pooled_rows(rows, arms, tasks)
        _draw(table, settings.out)
        write_text(Path(settings.out) / "losses.txt", worst_losses(rows))
        return table, tests

    return Task(arms, samples, solver, scorer, args, "threads", "thread")


def pooled_rows(rows: Sequence[Row], arms: Sequence[str], tasks: Mapping[str, str]) -> list[Row]:
    """Return a row an arm: ratios of sums, with errors over tasks.

    ``bill`` is the share of what the first arm costs by Anthropic's rules, ``bill_openai`` by OpenAI's.
    """
    by_arm = {arm: {r["thread"]: r for r in rows if r["agent"] == arm} for arm in arms}
    first = by_arm[arms[0]]
    table: list[Row] = []
    for arm in arms:
        own = {
            name: row for name, row in by_arm[arm].items() if not row.get("error") and name in first
        }
        labels = [tasks[name] for name in own]
        line: Row = {"agent": arm, "n": len(own), "tasks": len({*labels})}
        for metric, part, whole, is_beside in _RATIOS:
            parts = [row.get(part, 0.0) for row in own.values()]
            wholes = [(first[n] if is_beside else row).get(whole, 0.0) for n, row in own.items()]
            line[metric], line[f"{metric}_se"] = ratio_with_error(parts, wholes, labels)
        for total in ("recalls", "orphans", "over_budget", "needs", "tool_needs"):
            line[total] = sum(row.get(total, 0) for row in own.values())
        line["errors"] = sum(bool(row.get("error")) for row in by_arm[arm].values())
        table.append(line)
    return table


def worst_losses(rows: Sequence[Row]) -> str:
    """Return the losses of the threads that lost most, one a line, in their places."""
    ordered = sorted(rows, key=lambda row: -len(row.get("losses", ())))
    lines = [
        f"{row['agent']}, thread {row['thread']}: {loss}"
        for depth in range(_LOSSES)
        for row in ordered
        if row["agent"] != ORACLE
        for loss in row.get("losses", ())[depth : depth + 1]
    ]
    return "\n".join(lines[:_WORST]) + "\n"


def _draw(table: Sequence[Row], out: str) -> None:
    """Plot the bill against the share of needed values that stay readable."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    for row in table:
        x, y = 100 * row["bill"], 100 * row["readable_tool"]
        errors = 100 * row["readable_tool_se"], 100 * row["bill_se"]
        axes.errorbar(x, y, *errors, fmt="*" if row["agent"] == ORACLE else "o", capsize=2)
        axes.annotate(row["agent"], (x, y), (4, 4), textcoords="offset points", fontsize=7)
    axes.set_xlabel("bill, % of the untouched history (Anthropic's rules)")
    axes.set_ylabel("needed values still readable, %")
    axes.grid(alpha=0.3)
    figure.savefig(Path(out) / "frontier.png", dpi=120, bbox_inches="tight")
