"""Checkpoint bytes per step of our state beside a naive one that appends every page."""

import operator
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from envs.webshop import WebShop
from evals.core.parts import Parts
from graph.build import build_graph
from graph.checkpoints import SqliteCheckpoints
from graph.config import load_config


def checkpoint_parts(steps: Sequence[int] = (10, 100)) -> Parts:
    """Return a part for each state design and episode length: SQLite bytes, in all and a step."""
    designs = {"stategate": _ours, "append everything": _naive}
    return {
        f"{agent}, {n} steps": partial(_measure, agent, play, n)
        for agent, play in designs.items()
        for n in steps
    }


def _measure(agent: str, play: Callable[[Path, int], None], n: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoints.sqlite"
        play(path, n)
        return [{"agent": agent, "n": n, **_sizes(path, n)}]


def _actions(n: int) -> list[str]:
    return ["search[desk lamp]", *(["click[next >]", "click[< prev]"] * n)][:n]


def _ours(path: Path, n: int) -> None:
    config = load_config(
        {
            "actor": {"kind": "scripted", "actions": _actions(n)},
            "memory": ["short_term"],
            "max_steps": n,
            "checkpoints": str(path),
        }
    )
    thread: Any = {"configurable": {"thread_id": "t"}}
    out = build_graph(config).invoke({"task": {"goal": 0}}, config=thread)
    if out["steps"] != n:
        raise RuntimeError(f"the episode took {out['steps']} steps, not {n}")


class _Appended(TypedDict):
    messages: Annotated[list[str], operator.add]
    session: dict[str, Any]
    steps: int


def _naive(path: Path, n: int) -> None:
    """Play the same episode in a one-node loop whose state keeps every page and action."""
    shop = WebShop.load("sample", observation="rich")
    actions = _actions(n)

    def step(state: _Appended) -> dict[str, Any]:
        action = actions[state["steps"]]
        session, seen = shop.step(state["session"], action)
        return {
            "messages": [action, seen.text],
            "session": dict(session),
            "steps": state["steps"] + 1,
        }

    def route(state: _Appended) -> str:
        return END if state["steps"] >= n else "step"

    builder = StateGraph(_Appended)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", route, ["step", END])
    saver = SqliteCheckpoints(sqlite3.connect(path, check_same_thread=False))
    session, seen = shop.reset(goal=0)
    start: Any = {"messages": [seen.text], "session": dict(session), "steps": 0}
    thread: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": n + 5}
    builder.compile(checkpointer=saver).invoke(start, thread)


def _sizes(path: Path, n: int) -> dict[str, Any]:
    with sqlite3.connect(path) as db:
        kept = db.execute("select sum(length(checkpoint) + length(metadata)) from checkpoints")
        written = db.execute("select sum(length(value)) from writes")
        total = int(kept.fetchone()[0] or 0) + int(written.fetchone()[0] or 0)
    return {"bytes": total, "bytes_per_step": round(total / n)}
