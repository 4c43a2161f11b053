"""The statistics behind every table: means, standard errors, paired tests."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Paired:
    """Mean of ``b - a`` over pairs, its 95 % bootstrap interval and a sign-flip p-value."""

    difference: float
    low: float
    high: float
    p: float
    n: int


def mean(values: Sequence[float]) -> float:
    """Return the mean (NaN of nothing)."""
    return float(np.mean(values)) if len(values) else float("nan")


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean (NaN for fewer than two values)."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def paired(a: Sequence[float], b: Sequence[float], seed: int = 0, draws: int = 10_000) -> Paired:
    """Compare two agents on the same tasks, in order.

    The interval resamples tasks; the p-value flips the sign of each task's difference (two-sided,
    exact in expectation under exchangeability, never below ``1 / (draws + 1)``). Raises
    ``ValueError`` for unequal lengths or no pairs.
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"pairs are needed: {len(a)} and {len(b)} values")
    differences = np.asarray(b, dtype=float) - np.asarray(a, dtype=float)
    observed = float(differences.mean())
    rng = np.random.default_rng(seed)
    n = len(differences)
    sums = np.empty(draws)
    flips = np.empty(draws)
    block = max(1, 2_000_000 // n)
    for start in range(0, draws, block):
        size = min(block, draws - start)
        sums[start : start + size] = differences[rng.integers(0, n, (size, n))].mean(axis=1)
        signs = rng.integers(0, 2, (size, n)) * 2 - 1
        flips[start : start + size] = (signs * differences).mean(axis=1)
    low, high = np.quantile(sums, [0.025, 0.975])
    extreme = int(np.sum(np.abs(flips) >= abs(observed) - 1e-12))
    return Paired(observed, float(low), float(high), (extreme + 1) / (draws + 1), n)
