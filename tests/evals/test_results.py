"""No figure without a run: what the pages of docs/results say stands in the runs that they name."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from stategate.evals.core.reports import (
    find_runs,
    outcome_of,
    read_run,
    table,
)
from stategate.stores.errors import UserError

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RUNS = RESULTS / "runs"
PAGES = sorted(page.stem for page in RESULTS.glob("*.md"))
FIGURE = re.compile(r"(?<![\d.,])([\d,]*\.?\d+) ± ([\d,]*\.?\d+)")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of each run by its page and name: archived beside the page, or unpacked."""
    found = {(None, path.name): path for path in RUNS.iterdir() if path.is_dir()}
    for page in PAGES:
        target = tmp_path_factory.mktemp(page)
        with tarfile.open(RUNS / f"{page}.tar.xz") as archive:
            archive.extractall(target, filter="data")
        found |= {(page, path.name): path for path in target.iterdir()}
    return found


def named(page):
    """The runs that a page names, in its last paragraph and as folders."""
    text = (RESULTS / f"{page}.md").read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("Runs (`"))
    head, _, names = line.partition("): ")
    folders = re.findall(r"`runs/([\w.-]+)`", head)
    assert folders.pop(0) == f"{page}.tar.xz"
    return set(re.findall(r"`([\w.-]+)`", names)), set(folders)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short_and_names_the_runs_behind_it(page, folders):
    text = (RESULTS / f"{page}.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    archived, unpacked = named(page)
    assert {name for where, name in folders if where == page} == archived
    assert {(None, name) for name in unpacked} <= set(folders)
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (RESULTS / picture).is_file()


def pairs(page, folders):
    """Every (value, standard error) of the summaries behind a page."""
    archived, unpacked = named(page)
    keys = {(page, name) for name in archived} | {(None, name) for name in unpacked}
    for folder in (folders[key] for key in keys if (folders[key] / "args.json").is_file()):
        for row in read_run(folder).summary.get("rows", ()):
            for metric, error in row.items():
                value = row.get(metric.removesuffix("_se"))
                if metric.endswith("_se") and isinstance(error, float) and value is not None:
                    yield float(value), error


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_with_an_error_stands_in_a_run(page, folders):
    text = (RESULTS / f"{page}.md").read_text("utf-8")
    known = list(pairs(page, folders))
    for shown in FIGURE.finditer(text):
        value, error = (part.replace(",", "") for part in shown.groups())
        places = [len(part.partition(".")[2]) for part in (value, error)]
        assert any(
            abs(float(value) - factor * mean) <= 0.51 * 10 ** -places[0]
            and abs(float(error) - factor * se) <= 0.51 * 10 ** -places[1]
            for factor in (1, 100)
            for mean, se in known
        ), shown[0]


ROWS = [
    {"agent": "a", "goal": 0, "reward": 1.0, "steps": 2, "tokens": 10, "error": None},
    {"agent": "a", "goal": 1, "reward": 0.5, "steps": 3, "tokens": 20, "error": None},
    {"agent": "b", "goal": 0, "reward": 0.0, "steps": 9, "tokens": 90, "error": None},
    {"agent": "b", "goal": 1, "reward": 0.0, "steps": 1, "tokens": 5, "error": "<b>died</b>"},
]


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    args = {"command": "x", "data": {"name": "sample", "sha256": "abc"}, "goals": [0, 1]}
    (run / "args.json").write_text(json.dumps(args))
    (run / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS) + '{"to')
    return run


def test_a_run_is_read_and_its_torn_row_is_left_where_it_is(folder):
    before = (folder / "episodes.jsonl").read_bytes()
    run = read_run(folder)
    assert [row["agent"] for row in run.episodes] == ["a", "a", "b", "b"]
    assert (folder / "episodes.jsonl").read_bytes() == before
    assert find_runs([folder.parents[1]]) == [folder]


def test_an_episode_ends_in_one_of_four_ways():
    ends = {(row["agent"], row["goal"]): outcome_of(row) for row in ROWS}
    assert ends == {
        ("a", 0): "success",
        ("a", 1): "partial",
        ("b", 0): "failed",
        ("b", 1): "errors",
    }


def test_damage_is_told_by_line_and_other_folders_are_refused(folder, tmp_path):
    with pytest.raises(UserError, match="no run directory"):
        read_run(tmp_path)
    (folder / "episodes.jsonl").write_text("{}\nnonsense\n")
    with pytest.raises(UserError, match="line 2"):
        read_run(folder)


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
