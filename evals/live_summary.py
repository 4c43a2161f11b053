"""What a live run comes to: a row an agent, and paired tests against the first agent."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evals.run_directory import RunDirectory
from evals.statistics import mean, paired, standard_error

METRICS: tuple[str, ...] = (
    "success",
    "score",
    "bought",
    "steps",
    "tokens_per_step",
    "lost_per_step",
    "model_tokens",
    "cost",
)
METRICS += ("seconds", "cpu_seconds", "fallbacks")
_TESTED = ("success", "score", "tokens_per_step")


def summarise(
    run: RunDirectory, agents: Sequence[str], world: Any = None, seed: int = 0
) -> dict[str, Any]:
    """Make ``summary.json`` from the run's rows: a row an agent, tests against the first agent."""
    latest = {(row["agent"], row["goal"]): row for row in run.rows("episodes")}
    columns: dict[str, dict[int, dict[str, float]]] = {name: {} for name in agents}
    for (name, goal), row in latest.items():
        if name in columns:
            columns[name][goal] = _measured(row)
    rows = [_row(name, columns[name]) for name in agents]
    goals = sorted(columns[agents[0]])
    if hasattr(world, "oracle"):
        values = [world.oracle(goal) for goal in goals]
        perfect = [float(value == 1.0) for value in values]
        rows.append(
            {
                "agent": "oracle", "n": len(values),
                "success": mean(perfect), "success_se": standard_error(perfect),
                "score": mean(values), "score_se": standard_error(values),
            }
        )  # fmt: skip
    tests = []
    for name in agents[1:]:
        shared = sorted(set(columns[agents[0]]) & set(columns[name]))
        for metric in _TESTED if shared else ():
            a = [columns[agents[0]][goal][metric] for goal in shared]
            b = [columns[name][goal][metric] for goal in shared]
            tests.append({"a": agents[0], "b": name, "metric": metric, **vars(paired(a, b, seed))})
    return run.summarise(rows, tests)


def _measured(row: Mapping[str, Any]) -> dict[str, float]:
    steps = max(row["steps"], 1)
    return {
        "success": float(row["reward"] == 1.0),
        "score": float(row["reward"]),
        "steps": float(row["steps"]),
        "tokens_per_step": row["tokens"] / steps,
        "lost_per_step": row.get("lost", 0) / steps,
        "model_tokens": float(row["model_tokens"]),
        "cost": float(row["cost"]),
        "seconds": float(row["seconds"]),
        "cpu_seconds": float(row.get("cpu_seconds", math.nan)),  # runs of older code lack it
        "fallbacks": float(row["fallbacks"]),
        "errors": float(row["error"] is not None),
        "bought": float(row["done"]),
    }


def _row(name: str, episodes: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"agent": name, "n": len(episodes)}
    for metric in METRICS:
        values = [episode[metric] for episode in episodes.values()]
        if any(math.isnan(value) for value in values):
            continue
        row |= {metric: mean(values), f"{metric}_se": standard_error(values)}
    return {**row, "errors": int(sum(episode["errors"] for episode in episodes.values()))}
