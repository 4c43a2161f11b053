"""The page of results: values beside their errors, tests, mistakes."""

import pytest

from stategate.evals.core.report import format_tests, report, table
from stategate.stores.errors import UserError
from stategate.stores.runs import RunDirectory
from tests.kit import call, refused

ARGS = {
    "command": "stategate eval worlds",
    "commit": "0123456789abcdef with uncommitted changes",
}
ROW = {"agent": "full", "n": 2, "success": 0.5, "success_se": 0.5, "errors": 0}
ROW |= {"tokens_per_step": 80.0, "tokens_per_step_se": None, "cost": 0.0, "cost_se": 0.0}


@pytest.fixture
def run(tmp_path):
    made = RunDirectory(tmp_path / "rule", ARGS)
    made.summarise([ROW], [])
    return made


def cells(shown):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()]


def test_values_stand_beside_their_errors_and_known_metrics_in_their_units():
    rows = [
        {"agent": "a", "n": 4, "mrr": 0.5, "mrr_se": 0.125, "mrr_low": 0.2, "odd": 1234.5678},
        {"agent": "b", "n": 0, "note": "not run"},
    ]
    assert cells(table(rows))[0] == ["agent", "n", "MRR", "odd", "note"]
    assert cells(table(rows))[2:] == [
        ["a", "4", "0.500 ± 0.125", "1235", ""],
        ["b", "0", "", "", "not run"],
    ]
    test = {"a": "x", "b": "y", "metric": "success", "n": 9, "p": 0.0001}
    shown = format_tests([{**test, "difference": 0.1, "low": 0.05, "high": 0.2}])
    assert cells(shown)[2] == ["x", "y", "success %", "9", "+10.0", "+5.0 to +20.0", "< .001"]


def test_a_report_is_written_from_run_directories(run, tmp_path):
    page = tmp_path / "docs" / "shops.md"
    call("eval", "report", run.folder, "--out", page)
    text = page.read_text()
    assert text.startswith("# shops\n\n## rule")
    assert "`stategate eval worlds`, commit `0123456789abcdef with uncommitted changes`" in text
    assert "| full" in text


def test_mistakes_leave_no_page(run, tmp_path):
    page = tmp_path / "page.md"
    refused("eval", "report", "nowhere", "--out", page)
    (run.folder / "summary.json").unlink()
    with pytest.raises(UserError, match="no finished run"):
        report([run.folder], page)
    assert not page.exists()
