"""The same generated tasks under each arm: success, billed cost, tokens, latency, orphans, checkpoints.

stategate eval agents --split dev --n 60 --out runs/agents-dev
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from stategate.evals.agents.arms import arms_of, middleware_of
from stategate.evals.agents.billing import Bill
from stategate.evals.agents.reader import PlannedAgent, tools_of
from stategate.evals.agents.tasks import AgentTask, families_of, make_task
from stategate.evals.core.statistics import paired_tests, summary_row, units_of
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.stores.tokens import count_tokens

DEFAULT_ARMS = (
    "nothing",
    "last",
    "summarize",
    "clear",
    "compress",
    "compress_no_recall",
    "compress_whole",
    "window",
)
METRICS = (
    "success",
    "dollars_anthropic",
    "dollars_openai",
    "tokens_per_call",
    "cached_share",
    "calls",
    "model_tokens",
    "decide_ms",
    "orphans",
    "commands_lost",
    "checkpoint_kb",
    "errors",
)
_FAILED = {"success": 0.0, "errors": 1}
_SAVED = 3  # tasks of each family whose checkpoints are measured


def run_agents(
    out: str,
    split: str = "dev",
    n: int = 60,
    arms: Sequence[str] = DEFAULT_ARMS,
    budget: int = 8000,
    families: Sequence[str] = (),
    seed: int = 0,
    lingua: str = "",
) -> dict[str, Any]:
    """Play ``n`` tasks of a split, as many of each family; return the summary."""
    names = list(families) or families_of(split)
    keys = [{"family": names[i % len(names)], "seed": seed + i // len(names)} for i in range(n)]
    args: dict[str, Any] = {
        "split": split,
        "n": n,
        "arms": arms_of(arms, lingua),
        "budget": budget,
        "families": names,
        "seed": seed,
    }

    def dataset(arm: str) -> Sequence[Sample]:
        return [Sample(key, failure=[_FAILED]) for key in keys]

    def solver(arm: str) -> Solver:
        def solve(sample: Sample, attempt: Attempt) -> None:
            family, number = str(sample.key["family"]), int(sample.key["seed"])
            task = make_task(family, number)
            attempt.rows[0] |= play(task, arm, budget, number - seed < _SAVED, lingua)

        return solve

    return run_task(Task(args["arms"], dataset, solver, scored, "tasks", "task"), out, args)


def play(task: AgentTask, arm: str, budget: int, is_saved: bool = False, lingua: str = "") -> Row:
    """Let the agent of ``arm`` play ``task``; returns its row."""
    bill = Bill(0)
    middleware = middleware_of(arm, budget, bill, lingua)
    tools = tools_of(task)
    every = [*tools, *(tool for one in middleware for tool in getattr(one, "tools", ()))]
    bill.fixed = sum(count_tokens(str(convert_to_openai_tool(tool))) for tool in every)
    model = PlannedAgent(task=task, bill=bill)
    saver = InMemorySaver() if is_saved else None
    agent: Any = create_agent(
        model, tools, middleware=list(middleware), checkpointer=saver, store=InMemoryStore()
    )
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 1000}
    asked = {"messages": [{"role": "user", "content": task.instruction}]}
    last: list[Any] = []
    spent, problems = 0.0, 0
    started = time.perf_counter()
    for mode, value in agent.stream(asked, config, stream_mode=["custom", "values"]):
        if mode == "values":
            last = value["messages"]
        elif value.get("type") == "stategate.context":
            spent += value["seconds"]
            problems += bool(value["problem"])
    seconds = time.perf_counter() - started
    said = str(last[-1].content)
    row: Row = {
        "success": float(said == task.answer and not model.mistakes),
        "mistakes": model.mistakes,
        "said": said,
        "recalls": sum(name.startswith(("recall", "words")) for name in model.tried),
        "again": sum(name.startswith("again") for name in model.tried),
        "agent_ms": 1000 * seconds / model.calls,
        **bill.row(model.calls, model.orphans, spent, problems),
    }
    if saver is not None:
        row["checkpoint_kb"] = _size(saver) / 1000
    return row


def _size(saver: InMemorySaver) -> int:
    """Return the bytes of all checkpoints of a thread."""
    values = sum(len(blob) for _, blob in saver.blobs.values())
    kept: Mapping[str, Any] = saver.storage["t"]
    heads = sum(
        len(row[0][1]) + len(row[1][1]) for space in kept.values() for row in space.values()
    )
    return values + heads


def scored(rows: Sequence[Row]) -> Summary:
    """Return a row an arm, and one an arm and family; tests of each arm against nothing."""
    arms = list(dict.fromkeys(row["agent"] for row in rows))
    by_arm = units_of(rows, arms, ("family", "seed"), METRICS)
    table = [summary_row(arm, units, METRICS) for arm, units in by_arm.items()]
    whole = {m: sum(u.get(m, 0.0) for u in by_arm.get("nothing", {}).values()) for m in METRICS}
    for row in table:
        for biller in ("anthropic", "openai"):
            spent = sum(u.get(f"dollars_{biller}", 0.0) for u in by_arm[row["agent"]].values())
            base = whole[f"dollars_{biller}"]
            row[f"cost_{biller}"] = spent / base if base else None
    parts = []
    for arm, units in by_arm.items():
        for family in dict.fromkeys(name for name, _ in units):
            own = {unit: values for unit, values in units.items() if unit[0] == family}
            parts.append(
                {**summary_row(arm, own, ("success", "dollars_anthropic")), "family": family}
            )
    pairs = [("nothing", arm) for arm in arms if arm != "nothing"]
    tests = paired_tests(by_arm, pairs, ("success", "dollars_anthropic"))
    return [*table, *parts], tests
