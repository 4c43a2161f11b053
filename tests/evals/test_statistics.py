"""Statistics against values known by hand or from scipy."""

import numpy as np
import pytest
from scipy import stats

from stategate.evals.core.statistics import (
    paired,
    paired_tests,
    ratio_with_error,
    summary_row,
)


def test_a_clear_difference_is_found_and_its_sign_kept():
    a, b = [0.0] * 30, [1.0] * 30
    found = paired(a, b)
    assert [found[key] for key in ("difference", "low", "high", "n")] == [1.0, 1.0, 1.0, 30]
    assert found["p"] < 0.001
    assert paired(b, a)["difference"] == -1.0


def test_no_difference_is_not_found():
    rng = np.random.default_rng(3)
    a = rng.normal(size=80)
    b = a + rng.normal(size=80)
    found = paired(list(a), list(b))
    assert found["low"] < 0 < found["high"]
    assert found["p"] == pytest.approx(stats.ttest_rel(b, a).pvalue, abs=0.05)
    assert paired(a, a)["p"] == 1.0
    one = paired([0.0], [1.0])
    assert (one["low"], one["p"]) == (1.0, 1.0)


def test_the_seed_decides_and_bad_pairs_are_refused():
    a, b = [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]
    assert paired(a, b, seed=1) == paired(a, b, seed=1)
    with pytest.raises(ValueError, match="pairs"):
        paired([1.0], [])


def test_what_hangs_together_is_resampled_together():
    rng = np.random.default_rng(0)
    of_cluster = rng.normal(size=12)
    values = [float(of_cluster[i // 20]) for i in range(240)]
    clusters = [i // 20 for i in range(240)]
    none = [0.0] * 240
    alone, together = paired(none, values), paired(none, values, clusters=clusters)
    assert alone["difference"] == pytest.approx(together["difference"])
    assert together["high"] - together["low"] > 3 * (alone["high"] - alone["low"])
    assert together["p"] > alone["p"]
    mean, error = ratio_with_error(values, [1.0] * 240, clusters)
    assert mean == pytest.approx(together["difference"])
    assert 3.92 * error == pytest.approx(together["high"] - together["low"], rel=0.1)


def test_rows_and_tests_of_units():
    a = {1: {"score": 0.5, "errors": 0.0}, 2: {"score": 1.0, "errors": 1.0}}
    row = summary_row("a", a, ("score", "other"))
    assert (row["n"], row["score"], row["errors"]) == (2, 0.75, 1)
    assert "other" not in row
    tests = paired_tests(
        {"a": a, "b": {1: {"score": 1.0}, 3: {"score": 0.0}}}, [("a", "b")], ["score"]
    )
    assert [(t["difference"], t["n"]) for t in tests] == [(0.5, 1)]
    assert paired_tests({"a": a}, [("a", "b")], ["score"]) == []
