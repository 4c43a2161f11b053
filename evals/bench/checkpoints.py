"""Checkpoint bytes per step of our state beside a naive one that appends every page.

``python -m evals.bench checkpoints --steps 10,100``
"""

import operator
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from tqdm import tqdm

from envs.webshop import WebShop
from graph.build import build_graph
from graph.checkpoints import SqliteCheckpoints
from graph.config import load_config


def measure(steps: Sequence[int] = (10, 100)) -> list[dict[str, Any]]:
    """Return one row for each state design and episode length: SQLite bytes, in all and a step."""
    rows = []
    bar = tqdm([(agent, n) for agent in ("stategate", "append everything") for n in steps])
    for agent, n in bar:
        bar.set_description(f"{agent}, {n} steps")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoints.sqlite"
            (_ours if agent == "stategate" else _naive)(path, n)
            rows.append({"agent": agent, "n": n, **_sizes(path, n)})
    return rows


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
