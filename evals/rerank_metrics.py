"""Ranking metrics by ir-measures, and statistics over questions of several datasets."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Our names, and ir-measures' own.
MEASURES = {"ndcg": "nDCG@10", "map": "AP", "p2": "P@2", "r2": "R@2", "r5": "R@5"}
AVERAGE = "average"
Floats = NDArray[np.float64]
Values = Mapping[str, Sequence[float]]  # dataset: one value a question, in one order for all


def measure(scores: Sequence[float], relevant: Sequence[int], missed: int = 0) -> dict[str, float]:
    """Return each of :data:`MEASURES` for one question.

    ``scores`` are those of the pool, ``relevant`` indices into it, ``missed`` counts the relevant
    documents that did not make it into the pool. Equal scores keep the pool's order.
    """
    import ir_measures

    order = np.argsort(-np.asarray(scores, dtype=float), kind="stable")
    # Scores are replaced by ranks, because trec_eval breaks ties by document name.
    run = {"q": {f"d{i}": float(len(order) - place) for place, i in enumerate(order)}}
    judged = {f"d{i}": 1 for i in relevant} | {f"missed{i}": 1 for i in range(missed)}
    measures = {ours: ir_measures.parse_measure(name) for ours, name in MEASURES.items()}
    found = ir_measures.calc_aggregate(list(measures.values()), {"q": judged}, run)
    return {ours: float(found[m]) for ours, m in measures.items()}


def interval(
    groups: Values, seed: int = 0, draws: int = 10_000
) -> tuple[float, float, float, float]:
    """Return the mean of the datasets' means, its standard error, and its 95 % bootstrap interval.

    Questions are drawn again within each dataset.
    """
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(values, dtype=float) for values in groups.values() if len(values)]
    if not arrays:
        return (float("nan"),) * 4
    drawn = np.mean([_means(values, rng, draws) for values in arrays], axis=0)
    low, high = np.quantile(drawn, [0.025, 0.975])
    centre = float(np.mean([values.mean() for values in arrays]))
    return centre, float(drawn.std(ddof=1)), float(low), float(high)


def rows_by_dataset(agent: str, metric: str, values: Values) -> list[dict[str, Any]]:
    """Return a summary row for each dataset, and one for their average (the last)."""
    rows: list[dict[str, Any]] = []
    for dataset in (*values, AVERAGE):
        groups = values if dataset == AVERAGE else {dataset: values[dataset]}
        mean, error, low, high = interval(groups)
        rows.append({
            "agent": agent, "dataset": dataset, "n": sum(map(len, groups.values())), metric: mean,
            f"{metric}_se": error, f"{metric}_low": low, f"{metric}_high": high,
        })  # fmt: skip
    return rows


def compare(a: Values, b: Values, seed: int = 0, draws: int = 10_000) -> dict[str, float]:
    """Return the paired difference ``b - a`` averaged over datasets, its interval and p-value.

    The p-value flips the sign of each question's difference (two-sided).
    """
    gaps = {
        name: np.asarray(b[name], dtype=float) - np.asarray(a[name], dtype=float)
        for name in a
        if len(a[name])
    }
    rng = np.random.default_rng(seed + 1)
    centre, _, low, high = interval({k: list(v) for k, v in gaps.items()}, seed, draws)
    flips = np.zeros(draws)
    for values in gaps.values():
        signs = rng.integers(0, 2, (draws, len(values))) * 2 - 1
        flips += (signs * values).mean(axis=1) / len(gaps)
    extreme = int(np.sum(np.abs(flips) >= abs(centre) - 1e-12))
    n = sum(len(values) for values in gaps.values())
    return {
        "difference": centre, "low": low, "high": high, "p": (extreme + 1) / (draws + 1), "n": n,
    }  # fmt: skip


def _means(values: Floats, rng: np.random.Generator, draws: int) -> Floats:
    n = len(values)
    return np.asarray(values[rng.integers(0, n, (draws, n))].mean(axis=1))
