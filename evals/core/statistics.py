"""Standard errors, and paired tests by resampling (scipy), of whole clusters.

``clusters`` and ``groups`` name what each value belongs to (a dialogue, of its questions), because
values of one cluster are not independent; without them each value is a cluster.
"""

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = Sequence[Hashable] | None
#: Unit (a goal, a question): metric: value. A unit without a metric does not count in it.
Units = Mapping[Any, Mapping[str, float]]
_DRAWS = 10_000


def paired(
    a: Sequence[float] | Floats, b: Sequence[float] | Floats, seed: int = 0, clusters: Labels = None
) -> dict[str, float]:
    """Return the mean of ``b - a`` over pairs, its 95 % interval, a p-value and the number of pairs.

    The interval is a percentile bootstrap over clusters; the p-value a two-sided sign-flip permutation
    test, exact where all flips can be tried, else by random flips. Raises ``ValueError`` for unequal
    lengths or no pairs.
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"pairs are needed: {len(a)} and {len(b)} values")
    from scipy import stats

    members: dict[Hashable, list[float]] = {}
    for i, (before, after) in enumerate(zip(a, b, strict=True)):
        members.setdefault(clusters[i] if clusters else i, []).append(after - before)
    sums = np.array([sum(values) for values in members.values()])
    counts = np.array([float(len(values)) for values in members.values()])
    mean = low = high = float(sums.sum() / counts.sum())
    p = 1.0  # of one pair, whose sign says nothing
    if len(sums) > 1:
        batch = max(1, 2_000_000 // len(sums))  # draws that fit into memory at once
        how: Any = {"vectorized": True, "n_resamples": _DRAWS, "batch": batch, "rng": seed}
        resampled = stats.bootstrap(
            (sums, counts),
            lambda parts, sizes, axis: parts.sum(axis=axis) / sizes.sum(axis=axis),
            paired=True,
            method="percentile",
            **how,
        )
        low, high = map(float, resampled.confidence_interval)
        test = stats.permutation_test(
            (sums,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", **how
        )
        p = float(test.pvalue)
    return {"difference": mean, "low": low, "high": high, "p": p, "n": len(a)}


def ratio_with_error(
    parts: Sequence[float], wholes: Sequence[float], clusters: Sequence[Hashable]
) -> tuple[float, float]:
    """Return a ratio of sums and its standard error by the jackknife over clusters; NaN of nothing.

    With ``wholes`` of one each it is a mean of clustered values.
    """
    sums: dict[Hashable, Floats] = {}
    for part, whole, cluster in zip(parts, wholes, clusters, strict=True):
        sums[cluster] = sums.get(cluster, np.zeros(2)) + np.array([part, whole])
    part, whole = sum(sums.values(), np.zeros(2))
    if not whole:
        return float("nan"), float("nan")
    left_out = [(part - p) / (whole - w) for p, w in sums.values() if whole - w > 0]
    if len(left_out) < 2:
        return float(part / whole), float("nan")
    error = np.std(left_out) * np.sqrt(len(left_out) - 1)
    return float(part / whole), float(error)


def summary_row(
    agent: str, units: Units, metrics: Sequence[str], groups: Mapping[Any, Hashable] = {}
) -> dict[str, Any]:
    """Return an agent's row: ``n``, those of ``metrics`` that any unit has, ``errors`` if counted.

    Standard errors are over ``groups`` where it names units' (the product that a goal is about).
    """
    row: dict[str, Any] = {"agent": agent, "n": len(units)}
    for metric in metrics:
        values = {name: unit[metric] for name, unit in units.items() if metric in unit}
        if values:
            labels = [groups.get(name, name) for name in values]
            ones = [1.0] * len(values)
            row[metric], row[f"{metric}_se"] = ratio_with_error([*values.values()], ones, labels)
    if groups:
        row["groups"] = len({groups.get(unit, unit) for unit in units})
    if any("errors" in unit for unit in units.values()):
        row["errors"] = int(sum(unit["errors"] for unit in units.values()))
    return row


def units_of(
    rows: Sequence[Mapping[str, Any]], agents: Sequence[str], key: str, metrics: Sequence[str]
) -> dict[str, dict[Any, dict[str, float]]]:
    """Return agent: unit: metric: value, a unit for each row, named by the row's ``key``.

    A unit lacks the metrics that its row has no value of; "errors" is 1 or 0.
    """
    values: dict[str, dict[Any, dict[str, float]]] = {name: {} for name in agents}
    for row in rows:
        unit = {metric: float(row[metric]) for metric in metrics if row.get(metric) is not None}
        unit["errors"] = float(row.get("error") is not None)
        values[row["agent"]][row[key]] = unit
    return values


def paired_tests(
    values: Mapping[str, Units],
    pairs: Iterable[tuple[str, str]],
    metrics: Sequence[str],
    seed: int = 0,
    groups: Mapping[Any, Hashable] = {},
) -> list[dict[str, Any]]:
    """Return a test of b against a for each of ``pairs`` (a, b) and each metric.

    It is over the units that have the metric from both; ``groups`` are the clusters.
    """
    tests = []
    for (a, b), metric in itertools.product(pairs, metrics):
        of_a, of_b = (values.get(name, {}) for name in (a, b))
        shared = sorted(u for u in of_a if metric in of_a[u] and metric in of_b.get(u, {}))
        if shared:
            pair = ([of_a[u][metric] for u in shared], [of_b[u][metric] for u in shared])
            clusters = [groups.get(unit, unit) for unit in shared]
            tests.append({"a": a, "b": b, "metric": metric, **paired(*pair, seed, clusters)})
    return tests


def compared(
    rows: Sequence[Mapping[str, Any]],
    agents: Sequence[str],
    key: str,
    metrics: Sequence[str],
    tested: Sequence[str],
    pairs: Iterable[tuple[str, str]],
    seed: int,
    cluster: str = "",
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a row for each agent, and the tests of ``pairs``, of the units that ``rows`` hold.

    ``key`` names a row's unit; ``cluster`` the field of rows that hang together, "" for none.
    """
    units = units_of(rows, agents, key, metrics)
    groups = {row[key]: row[cluster] for row in rows if cluster and row[cluster]}
    table = [summary_row(name, units[name], metrics, groups) for name in agents]
    return table, paired_tests(units, pairs, tested, seed, groups)


def ranking_metrics(
    measures: Mapping[str, str], scores: Sequence[float], relevant: Sequence[int], missed: int = 0
) -> dict[str, float]:
    """Return each of ``measures`` (our name: ir-measures' name) for one question's ranking.

    ``scores`` are those of the candidates, ``relevant`` indices into them, ``missed`` counts the
    relevant ones that are no candidates. Equal scores keep the candidates' order.
    """
    import ir_measures

    order = np.argsort(-np.asarray(scores, dtype=float), kind="stable")
    # Scores are replaced by ranks, because trec_eval breaks ties by document name.
    run = {"q": {f"d{i}": float(len(order) - rank) for rank, i in enumerate(order)}}
    judged = {f"d{i}": 1 for i in relevant} | {f"missed{i}": 1 for i in range(missed)}
    parsed = {name: ir_measures.parse_measure(text) for name, text in measures.items()}
    values = ir_measures.calc_aggregate(list(parsed.values()), {"q": judged}, run)
    return {name: float(values[measure]) for name, measure in parsed.items()}
