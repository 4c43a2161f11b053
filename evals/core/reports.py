"""Reports of run directories, which are only read: rows, stories, summaries as tables."""

import re
import tarfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json, user_path
from stategate.stores.runs import read_rows

_ARGS, _SUMMARY = "args.json", "summary.json"
_MAX_IMAGE = 4_000_000  # bytes of a plot: a browser must not get a larger file
#: metric: (heading, factor, decimals). Others are shown under their own name, with four digits.
_FORMATS: dict[str, tuple[str, int, int]] = tomllib.loads(
    Path(__file__).with_name("metrics.toml").read_text("utf-8")
)
#: Columns that fit a terminal; tables of episodes, evidence and replays, which have more, show these.
_HEAD = 12  # letters of a line of a heading, which goes on below
_COLUMNS = frozenset(
    "agent n success score steps tokens_per_step seconds turn_any_5 turn_all_5 turn_any_10"
    " turn_any_in600 session_any_5 abstention_auc bill readable readable_tool tokens_per_call"
    " recalls".split()
)
_TESTED = ("score", "ndcg", "right", "f1")
#: Columns of bounds and standard errors: no columns of their own where their value has one.
_ERROR_COLUMN = re.compile(r"_(se|low|high)$")


@dataclass(frozen=True)
class Run:
    """A run directory's content; ``summary`` is empty before the run has ended."""

    folder: Path
    args: dict[str, Any]
    summary: dict[str, Any]
    episodes: list[dict[str, Any]]
    pictures: tuple[Path, ...]


def find_runs(roots: Iterable[Path]) -> list[Path]:
    """Return the run directories under ``roots`` (two levels deep), newest first."""
    patterns = (_ARGS, f"*/{_ARGS}", f"*/*/{_ARGS}")
    files = (path for root in roots for pattern in patterns for path in root.glob(pattern))
    paths = {path for path in files if path.is_file()}
    return [p.parent for p in sorted(paths, key=lambda path: (-path.stat().st_mtime, str(path)))]


def read_run(folder: str | Path) -> Run:
    """Read a run directory. Raises ``UserError`` for anything else.

    A last row that a kill cut off is left out (and left on the disk).
    """
    path = user_path(folder)
    if not (path / _ARGS).is_file():
        raise UserError(f"'{folder}' is no run directory: it has no {_ARGS}")
    with user_error_context(f"cannot read the run '{folder}'"):
        args = parse_json((path / _ARGS).read_text(encoding="utf-8"))
        ended = (path / _SUMMARY).is_file()
        summary = parse_json((path / _SUMMARY).read_text(encoding="utf-8")) if ended else {}
        files = [path / "episodes.jsonl", path / "episodes.jsonl.gz"]
        # Files only: reading a pipe that somebody put there would wait for ever.
        episodes = [row for file in files if file.is_file() for row in read_rows(file)]
    if not isinstance(args, dict) or not isinstance(summary, dict):
        raise UserError(f"'{folder}' is no run directory: {_ARGS} holds no arguments")
    images = [
        p for p in sorted(path.glob("*.png")) if p.is_file() and p.stat().st_size <= _MAX_IMAGE
    ]
    return Run(path, args, summary, episodes, tuple(images))


def outcome_of(row: Mapping[str, Any]) -> Literal["success", "partial", "failed", "errors"]:
    """Say how an episode ended: success (reward 1), partial, failed (reward 0), or an error."""
    if row.get("error"):
        return "errors"
    reward = float(row.get("reward") or 0.0)
    return "success" if reward >= 1.0 else "partial" if reward > 0 else "failed"


def unpack_runs(archives: Path, target: Path) -> Path:
    """Unpack the runs of each ``PAGE.tar.xz`` in a folder as ``target/PAGE/NAME``; return it."""
    for path in sorted(archives.glob("*.tar.xz")):
        with tarfile.open(path) as archive:
            archive.extractall(target / path.name.removesuffix(".tar.xz"), filter="data")
    return target


def read_stories(page: Path, roots: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the stories of a page about runs under ``roots``.

    A story is a run in a sentence: title, text, run, command ("" for none), and a bar (name, share,
    label) for each agent that it compares.
    """
    stories = []
    for row in yaml.safe_load(page.read_text(encoding="utf-8")) if page.is_file() else ():
        run = next(iter(row["bars"]))
        found = next((root / run for root in roots if (root / run).is_dir()), Path(run))
        bars = [(name, label) for bars in row["bars"].values() for name, (_, label) in bars.items()]
        shares = [(name, float(label.split()[0]) / 100, label) for name, label in bars]
        stories.append({"command": "", **row, "run": found, "bars": shares})
    return stories


# Summaries ---------------------------------------------------------------------------------------


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return summary rows as a table for a terminal."""
    from tabulate import tabulate

    heads, data = cells(rows)
    how: dict[str, Any] = {"tablefmt": "simple", "disable_numparse": True}
    return tabulate(data, heads, maxheadercolwidths=_HEAD, **how)


def cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the cells of summary rows, each value ± its standard error."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [c for c in columns if _ERROR_COLUMN.sub("", c) not in {*columns} - {c}]
    if not any(row.get("cost") for row in rows):  # a local model's is nil
        columns = [column for column in columns if column != "cost"]
    heads = [_FORMATS.get(column, (column, 1, 0))[0] for column in columns]
    return heads, [[_cell(row, column) for column in columns] for row in rows]


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return a summary for a terminal: its rows, mean ± standard error, and its main tests."""
    rows = [row for row in summary["rows"] if row.get("category", "all") == "all"]
    if any({"tokens_per_step", "turn_any_5", "bill"} & {*row} for row in rows):
        heads = _COLUMNS | ({"errors"} if any(row.get("errors") for row in rows) else set())
        rows = [{k: v for k, v in row.items() if k.removesuffix("_se") in heads} for row in rows]
    lines = [table(rows)]
    for test in summary["tests"]:
        if test["metric"] in _TESTED and test.get("dataset") in (None, "average"):
            lines.append(
                f"{test['b']} against {test['a']}: {test['metric']} {test['difference']:+.3f} "
                f"(95 % interval {test['low']:+.3f} to {test['high']:+.3f}), p = {test['p']:.3f}"
            )
    return "\n".join(lines)


def _cell(row: Mapping[str, Any], metric: str) -> str:
    value, error = row.get(metric), row.get(f"{metric}_se")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if metric not in _FORMATS:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"{text} ± {error:.2g}" if isinstance(error, float) else text
    _, factor, decimals = _FORMATS[metric]
    text = f"{value * factor:.{decimals}f}"
    return text if error is None else f"{text} ± {error * factor:.{decimals}f}"
