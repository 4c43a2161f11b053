"""No figure without a run: what the pages of docs/results say stands in the runs that they name."""

import re
import tarfile
from pathlib import Path

import pytest

from stategate.evals.core.run_directory import read_run, table

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


def test_every_run_opens_and_has_a_table(folders):
    finished = [path for path in folders.values() if (path / "summary.json").is_file()]
    assert len(finished) > 50
    for folder in finished:
        run = read_run(folder)
        assert len(table(run.summary["rows"]).splitlines()) == len(run.summary["rows"]) + 2
