"""What one task of a world teaches the next: values that a user settled on, asked for again.

    stategate eval remembered --set env.data=official --goals 0-49 --out runs/remembered

A user plays five tasks; what their pages mark as settled goes into long-term memory. In a new session
the same user asks for each thing again, without the values (the view's clauses leave them out). Counted
is the share of the values that stand in what memory adds to the context within 200 tokens. ``stranger``
reads another user's memory: what it finds is coincidence, or a leak.

    stategate eval served --set env.data=official --set env.split=train --out runs/served

Where things were seen serves the next task in the same place: success and steps, with memory and not.
"""

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig

from stategate.envs.protocols import View, playable
from stategate.evals.core.statistics import paired_tests, summary_row
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.worlds.live import chosen_tasks
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.nodes.build_context.recall import MemoryReader, remembered_pieces
from stategate.nodes.retrieval.align import wish_of
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.stores.errors import UserError
from stategate.stores.runs import public_config

_EACH, _TOKENS = 5, 200
AGENTS = ("remembered", "stranger")
SERVED = ("nothing", "remembered", "stranger")


def run_remembered(
    out: str,
    goals: Sequence[int] | str = "0-49",
    config: str = "webshop",
    overrides: Sequence[str] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Play the tasks, five a user, and ask again; return the summary. Resumes by user."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        url = str(Path(folder) / "memory.sqlite")
        base = load_config(config, list(overrides))
        graph = build_graph(base, checkpointer=False)
        agent = graph.agent
        tasks = list(chosen_tasks(agent.world, goals).values())
        users = [tasks[i : i + _EACH] for i in range(0, len(tasks), _EACH)]
        args = {
            "experiment": "remembered",
            "goals": str(goals),
            "seed": seed,
            "agents": {"base": public_config(base.model_dump(mode="json"))},
        }
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
                    limits = MemoryReader(place=place, facts=20)
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
            return table, paired_tests(units, [AGENTS[::-1]], ("readable",), seed)

        return run_task(Task(AGENTS, lambda _: samples, solver, scorer, "asked", "user"), out, args)


def _play(base: Any, url: str, user: str, tasks: Sequence[Any]) -> None:
    """Play the tasks as ``user``; a task that was played is not written twice."""
    writer = {"kind": "long_term", "place": {"url": url, "user": user}}
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


def run_served(
    out: str,
    config: str,
    overrides: Sequence[str] = (),
    users: int = 20,
    tasks: int = 6,
    seed: int = 0,
) -> dict[str, Any]:
    """Play ``tasks`` tasks of one scene after another as one user, with and without memory.

    For worlds that say which tasks happen in one place (``scenes``). ``nothing`` has no memory,
    ``remembered`` its own, ``stranger`` that of somebody who played in another scene. Counted are the
    tasks after the first one. Resumes by user; tests pair tasks.
    """
    base = load_config(config, list(overrides))
    world = playable(build_graph(base, checkpointer=False).agent.world)
    scenes = world.scenes
    draw = random.Random(seed)
    names = sorted(name for name, numbers in scenes.items() if len(numbers) >= tasks)
    if len(names) < 2:
        raise UserError(f"this world has no two scenes of {tasks} tasks or more: use another")
    listed = list(world.tasks())
    chosen = draw.sample(names, min(users, len(names)))
    played = {name: [listed[i] for i in draw.sample(list(scenes[name]), tasks)] for name in chosen}
    args = {
        "experiment": "served",
        "seed": seed,
        "tasks": tasks,
        "users": len(chosen),
        "agents": {"base": public_config(base.model_dump(mode="json"))},
    }
    failure = {"success": 0.0, "steps": float(base.max_steps), "facts": 0.0}
    samples = [Sample({"user": name}, name, [failure] * (tasks - 1)) for name in chosen]

    def solver(agent: str) -> Solver:
        def solve(sample: Sample, attempt: Attempt) -> None:
            other = chosen[(chosen.index(sample.data) + 1) % len(chosen)]
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                url = str(Path(folder) / "memory.sqlite")
                if agent == "stranger":
                    _turn_by_turn(base, url, played[other], reads=False)
                own = played[sample.data]
                writes = agent == "remembered"
                rows = _turn_by_turn(base, url, own, reads=agent != "nothing", writes=writes)
                for row, values in zip(attempt.rows, rows[1:], strict=True):
                    row |= values

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        metrics = ("success", "steps", "facts")
        units: dict[str, dict[Any, dict[str, float]]] = {name: {} for name in SERVED}
        for row in rows:
            own = units[row["agent"]]
            own[row["user"], len(own)] = {name: float(row[name]) for name in metrics}
        table = [summary_row(name, units[name], metrics) for name in SERVED]
        pairs = (("nothing", "remembered"), ("stranger", "remembered"))
        return table, paired_tests(units, pairs, ("success", "steps"), seed)

    return run_task(Task(SERVED, lambda _: samples, solver, scorer, "tasks", "user"), out, args)


def _turn_by_turn(
    base: Any, url: str, tasks: Sequence[Any], *, reads: bool, writes: bool = True
) -> list[dict[str, float]]:
    """Play the tasks, each on a thread of its own; return success, steps and facts shown of each."""
    place = {"url": url, "user": "one"}
    values = base.model_dump(mode="json")
    if writes:
        writer = {"kind": "long_term", "place": place}
        values["memory"] = [*values["memory"], writer]
    if reads:
        memory = {"place": place, "facts": 10}
        values["context"] = {"kind": "remembered", "inner": values["context"], "memory": memory}
    values["memory"] = [m for m in values["memory"] if m["kind"] != "trace"]
    graph = build_graph(load_config(values), checkpointer=False)
    rows = []
    for number, task in enumerate(tasks):
        where: RunnableConfig = {"configurable": {"thread_id": f"one-{number}"}}
        shown = 0
        state: Any = {}
        for mode, update in graph.stream({"task": task}, where, stream_mode=["updates", "values"]):
            if mode == "values":
                state = update
            elif context := (update.get("build_context") or {}).get("context"):
                shown = max(shown, sum(p.kind == "fact" and bool(p.text) for p in context.pieces))
        success = float((state.get("reward") or 0.0) >= 1.0)
        rows.append({"success": success, "steps": float(state["steps"]), "facts": float(shown)})
    return rows
