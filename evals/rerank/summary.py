"""From a reranking run's rows to its summary: a row a ranker and dataset, and paired tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evals.multihop import Question
from evals.rerank_metrics import AVERAGE, MEASURES, compare, interval, measure
from evals.run_directory import RunDirectory
from nodes.build_context.rico.fusion import fuse_named, parts_of

Rows = Mapping[tuple[str, str, str], Mapping[str, Any]]
#: Rankers that are read off another one's row: the gradient through the last third of the layers.
DERIVED = {"late_gradient": "single_gradient"}


def source_of(part: str) -> str:
    """Return the ranker whose row ``part`` is read off: ``multistep@3`` is multistep's third step."""
    return DERIVED.get(part, part.partition("@")[0])


def summarise(
    run: RunDirectory, questions: Sequence[Question], rankers: Sequence[str], seed: int = 0
) -> dict[str, Any]:
    """Write ``summary.json`` and return it; only questions that every ranker has scored count.

    Tests compare every ranker with the first, and the last with every other.
    """
    rows = {(r["dataset"], r["id"], r["ranker"]): r for r in run.rows("scores")}
    wanted = {source_of(part) for name in rankers for part in parts_of(name)}
    whole = [q for q in questions if all((q.dataset, q.id, part) in rows for part in wanted)]
    datasets = list(dict.fromkeys(q.dataset for q in whole))
    values = {name: measured(name, whole, rows) for name in rankers}
    summary = []
    for name in rankers:
        cost = _cost(name, whole, rows)
        for dataset in (*datasets, AVERAGE):
            named = datasets if dataset == AVERAGE else [dataset]
            count = sum(len(values[name]["ndcg"][d]) for d in named)
            row: dict[str, Any] = {"agent": name, "dataset": dataset, "n": count}
            for metric in MEASURES:
                groups = {d: values[name][metric][d] for d in named}
                mean, error, low, high = interval(groups, seed)
                row |= {metric: mean, f"{metric}_se": error}
                row |= {f"{metric}_low": low, f"{metric}_high": high}
            summary.append({**row, **cost})
    pairs = [(rankers[0], name) for name in rankers[1:]]
    pairs += [(name, rankers[-1]) for name in rankers[1:-1]]
    tests = []
    for a, b in pairs:
        for dataset in (AVERAGE, *datasets):
            named = datasets if dataset == AVERAGE else [dataset]
            left = {d: values[a]["ndcg"][d] for d in named}
            right = {d: values[b]["ndcg"][d] for d in named}
            test = compare(left, right, seed)
            tests.append({"a": a, "b": b, "metric": "ndcg", "dataset": dataset, **test})
    return run.summarise(summary, tests)


def measured(
    name: str, questions: Sequence[Question], rows: Rows
) -> dict[str, dict[str, list[float]]]:
    """Return metric → dataset → one value a question, for a ranker or a fusion of rankers."""
    found: dict[str, dict[str, list[float]]] = {metric: {} for metric in MEASURES}
    parts = parts_of(name)
    for question in questions:
        scored = {part: row_of(part, question, rows) for part in parts}
        scores = fuse_named(name, {part: row["scores"] for part, row in scored.items()})
        first = scored[parts[0]]
        made = measure(list(scores), first["relevant"], first["missed"])
        for metric, value in made.items():
            found[metric].setdefault(question.dataset, []).append(value)
    return found


def _cost(name: str, questions: Sequence[Question], rows: Rows) -> dict[str, float]:
    """Return a ranker's mean seconds and model calls a question (a fusion's are its parts' sum)."""
    scored = [[row_of(part, q, rows) for part in parts_of(name)] for q in questions]
    if not scored:
        return {}
    return {
        "seconds": float(np.mean([sum(row["seconds"] for row in each) for each in scored])),
        "calls": float(np.mean([sum(row["calls"] for row in each) for each in scored])),
    }


def row_of(part: str, question: Question, rows: Rows) -> Mapping[str, Any]:
    """Return a ranker's row for a question; raises ``KeyError`` where it was not scored."""
    row = rows[question.dataset, question.id, source_of(part)]
    _, at, step = part.partition("@")
    if at:
        return {**row, "scores": row["path"][int(step) - 1], "calls": 2 * int(step)}
    if part not in DERIVED:
        return row
    layers = row["by_layer"]
    late = np.sum(layers[-max(len(layers) // 3, 1) :], axis=0)
    return {**row, "scores": late.tolist()}
