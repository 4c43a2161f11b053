"""Tables of summaries: values beside their errors."""

import re

from stategate.evals.core.run_directory import table


def test_values_stand_beside_their_errors_and_known_metrics_in_their_units():
    rows = [
        {"agent": "a", "n": 4, "mrr": 0.5, "mrr_se": 0.125, "mrr_low": 0.2, "odd": 1234.5678},
        {"agent": "b", "n": 0, "note": "not run"},
    ]
    head, _, first, second = (
        re.split(r"\s{2,}", line.strip()) for line in table(rows).splitlines()
    )
    assert head == ["agent", "n", "MRR", "odd", "note"]
    assert first == ["a", "4", "0.500 ± 0.125", "1235"]
    assert second == ["b", "0", "not run"]
