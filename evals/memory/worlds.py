"""What one task of a world teaches the next: values that a user settled on, asked for again.

    stategate eval remembered --set env.data=official --goals 0-49 --out runs/remembered

A user plays five tasks; what their pages mark as settled goes into long-term memory. In a new session
the same user asks for each thing again, without the values (the view's clauses leave them out). Counted
is the share of the values that stand in what memory adds to the context within 200 tokens. ``stranger``
reads another user's memory: what it finds is coincidence, or a leak.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig

from envs.protocols import View
from evals.core.statistics import paired_tests, summary_row
from evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from evals.worlds.live import chosen_tasks
from graph.build import build_graph
from graph.config import load_config
from nodes.build_context.recall import MemoryReader, remembered_pieces
from nodes.retrieval.align import wish_of
from nodes.retrieval.memory import MemoryPlace
from stores.runs import provenance, shown_config

_EACH, _TOKENS = 5, 200
AGENTS = ("remembered", "stranger")


def run_remembered(
    out: str,
    goals: Sequence[int] | str = "0-49",
    config: str = "webshop",
    overrides: Sequence[str] = (),
    seed: int = 0,
    command: Sequence[str] = ("run_remembered",),
) -> dict[str, Any]:
    """Play the tasks, five a user, and ask again; return the summary. Resumes by user."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        url = str(Path(folder) / "memory.sqlite")
        base = load_config(config, list(overrides))
        graph = build_graph(base, checkpointer=False)
        agent = graph.agent.bound()  # type: ignore[attr-defined]
        tasks = list(chosen_tasks(agent.world, goals).values())
        users = [tasks[i : i + _EACH] for i in range(0, len(tasks), _EACH)]
        args = {
            **provenance(command), "experiment": "remembered", "goals": str(goals), "seed": seed,
            "agents": {"base": shown_config(base.model_dump(mode="json"))},
        }  # fmt: skip
        samples = [
            Sample({"user": f"user {i}"}, (i, own), [{"asked": 0}] * len(own))
            for i, own in enumerate(users)
        ]

        def solver(name: str) -> Solver:
            def solve(sample: Sample, attempt: Attempt) -> None:
                number, own = sample.data
                _play(base, url, f"user {number}", own)
                reader = number if name == "remembered" else number + 1
                if name == "stranger":
                    _play(base, url, f"user {reader}", users[reader % len(users)])
                place = MemoryPlace(url=url, user=f"user {reader}")
                store = place.open()
                for row, task in zip(attempt.rows, own, strict=True):
                    instruction = agent.world.instruction(agent.world.reset(task)[0])
                    asked, values = _without_values(agent.resources.view, instruction)
                    limits = MemoryReader(place=place, facts=20, entities=0, relations=0)
                    pieces = remembered_pieces(limits, store, agent.resources, asked, _TOKENS)
                    text = "".join(piece.text for piece in pieces).lower()
                    row |= {"asked": len(values), "tokens": sum(p.tokens_after for p in pieces)}
                    if values:
                        row["readable"] = sum(v.lower() in text for v in values) / len(values)

            return solve

        def scorer(rows: Sequence[Row]) -> Summary:
            units = {
                name: {
                    (row["user"], i): {k: float(row[k]) for k in ("readable", "tokens")}
                    for i, row in enumerate(r for r in rows if r["agent"] == name)
                    if "readable" in row
                }
                for name in AGENTS
            }
            table = [summary_row(name, units[name], ("readable", "tokens")) for name in AGENTS]
            return table, paired_tests(units, "stranger", "remembered", ("readable",), seed)

        return run_task(Task(AGENTS, lambda _: samples, solver, scorer, "asked", "user"), out, args)


def _play(base: Any, url: str, user: str, tasks: Sequence[Any]) -> None:
    """Play the tasks as ``user``; a task that was played is not written twice."""
    writer = {"kind": "long_term", "place": {"url": url, "user": user}, "extractor": "rules"}
    values = base.model_dump(mode="json")
    values["memory"] = [*(m for m in values["memory"] if m["kind"] == "short_term"), writer]
    graph = build_graph(load_config(values), checkpointer=False)
    for place, task in enumerate(tasks):
        where: RunnableConfig = {"configurable": {"thread_id": f"{user}-{place}"}}
        graph.invoke({"task": task}, where)


def _without_values(view: View, instruction: str) -> tuple[str, list[str]]:
    """Return the instruction's words for the thing itself, and the values that it asks for."""
    wish = wish_of(view, instruction)
    return ", ".join(wish.phrases), [value for _, value in wish.values]
