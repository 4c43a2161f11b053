"""From a reranking run's rows to its summary: ranking metrics by ir-measures, and paired tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stategate.evals.core.statistics import paired, ranking_metrics, with_interval
from stategate.evals.core.task import Row, Summary
from stategate.evals.rerank.data import Question
from stategate.nodes.retrieval.ranking import fuse_named, weighted_parts

Rows = Mapping[tuple[str, str, str], Mapping[str, Any]]
#: Our names, and ir-measures' own.
MEASURES = {"ndcg": "nDCG@10", "map": "AP", "p2": "P@2", "r2": "R@2", "r5": "R@5"}
#: The dataset that a row about all of them names: the mean of their means.
AVERAGE = "average"


def summarise(
    scores: Sequence[Row], questions: Sequence[Question], rankers: Sequence[str], seed: int = 0
) -> Summary:
    """Return a row a ranker and dataset, and tests; the last of the datasets is their average.

    Tests compare every ranker with the first, and the last with every other. Where a ranker failed,
    its documents keep the order of the pool.
    """
    rows = {(row["dataset"], row["id"], row["agent"]): row for row in scores}
    places = {AVERAGE: list(range(len(questions)))}
    for number, question in enumerate(questions):
        places.setdefault(question.dataset, []).append(number)
    strata = [question.dataset for question in questions]
    values = {name: measured(name, questions, rows) for name in rankers}
    summary = []
    for name in rankers:
        cost = _cost(name, questions, rows)
        failed = [
            q
            for q in questions
            for p in weighted_parts(name)
            if rows[q.dataset, q.id, p].get("error")
        ]
        for dataset in (*dict.fromkeys(strata), AVERAGE):
            own = places[dataset]
            row: Row = {"agent": name, "dataset": dataset, "n": len(own)}
            for metric in MEASURES:
                figures = [values[name][metric][i] for i in own]
                row |= with_interval(metric, figures, seed, strata=[strata[i] for i in own])
            errors = sum(q.dataset == dataset or dataset == AVERAGE for q in failed)
            summary.append({**row, **cost, "errors": errors})
    pairs = [(rankers[0], name) for name in rankers[1:]]
    pairs += [(name, rankers[-1]) for name in rankers[1:-1]]
    tests = []
    for a, b in pairs:
        for dataset in (AVERAGE, *dict.fromkeys(strata)):
            own = places[dataset]
            one, two = ([values[name]["ndcg"][i] for i in own] for name in (a, b))
            test = vars(paired(one, two, seed, strata=[strata[i] for i in own]))
            tests.append({"a": a, "b": b, "metric": "ndcg", "dataset": dataset, **test})
    return summary, tests


def measured(name: str, questions: Sequence[Question], rows: Rows) -> dict[str, list[float]]:
    """Return metric → one value a question, for a ranker or a fusion of rankers."""
    found = []
    for question in questions:
        scored = {part: rows[question.dataset, question.id, part] for part in weighted_parts(name)}
        scores = fuse_named(name, {part: row["scores"] for part, row in scored.items()})
        first = next(iter(scored.values()))
        found.append(ranking_metrics(MEASURES, list(scores), first["relevant"], first["missed"]))
    return {metric: [one[metric] for one in found] for metric in MEASURES}


def _cost(name: str, questions: Sequence[Question], rows: Rows) -> dict[str, float]:
    """Return a ranker's mean seconds and model calls a question (a fusion's are its parts' sum)."""
    scored = [[rows[q.dataset, q.id, part] for part in weighted_parts(name)] for q in questions]
    return {
        cost: float(np.mean([sum(row[cost] for row in each) for each in scored]))
        for cost in ("seconds", "calls")
    }
