"""Statistics against values known by hand or from scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from evals.statistics import mean, paired, standard_error


def test_mean_and_standard_error():
    values = [0.0, 1.0, 1.0, 1.0]
    assert mean(values) == 0.75
    assert standard_error(values) == pytest.approx(stats.sem(values))
    assert math.isnan(mean([]))
    assert math.isnan(standard_error([1.0]))


def test_a_clear_difference_is_found_and_its_sign_kept():
    a, b = [0.0] * 30, [1.0] * 30
    found = paired(a, b)
    assert (found.difference, found.low, found.high, found.n) == (1.0, 1.0, 1.0, 30)
    assert found.p < 0.001
    assert paired(b, a).difference == -1.0


def test_no_difference_is_not_found():
    rng = np.random.default_rng(3)
    a = rng.normal(size=80)
    b = a + rng.normal(size=80)
    found = paired(list(a), list(b))
    assert found.low < 0 < found.high
    assert found.p == pytest.approx(stats.ttest_rel(b, a).pvalue, abs=0.05)
    assert paired(a, a).p == 1.0


def test_the_seed_decides_and_bad_pairs_are_refused():
    a, b = [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]
    assert paired(a, b, seed=1) == paired(a, b, seed=1)
    with pytest.raises(ValueError, match="pairs"):
        paired([1.0], [])
