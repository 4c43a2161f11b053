"""Reading a run directory without changing a byte of it: rows, findings, summaries as tables."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.runs import read_rows

Outcome = Literal["success", "partial", "failed", "errors"]
_ARGS, _SUMMARY = "args.json", "summary.json"
#: Bytes of a plot; whatever is larger is none, and nobody's browser should get it.
_PICTURE = 4_000_000
#: metric: (heading, factor, decimals). Others are shown under their own name, with four digits.
_SHOWN: dict[str, tuple[str, int, int]] = tomllib.loads(
    Path(__file__).with_name("metrics.toml").read_text("utf-8")
)
#: Columns of episodes and of evidence that fit a terminal; where there are others, these are shown.
_COLUMNS = frozenset(
    "agent n success score steps tokens_per_step seconds turn_any_5 turn_all_5 turn_any_10"
    " turn_any_in600 session_any_5 abstention_auc".split()
)
_TESTED = ("score", "ndcg", "right", "f1")
#: Bounds of intervals and standard errors stand beside their value or not at all.
_BESIDE = re.compile(r"_(se|low|high)$")


@dataclass(frozen=True)
class Run:
    """A run as it lies on the disk; a run that still goes on has no summary yet.

    ``tables`` are the rows of each ``.jsonl`` file by its name, ``pictures`` the image files.
    """

    folder: Path
    args: dict[str, Any]
    summary: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pictures: tuple[Path, ...] = ()


def find_runs(roots: Iterable[Path]) -> list[Path]:
    """Return the run directories under ``roots`` (two levels deep), newest first."""
    patterns = (_ARGS, f"*/{_ARGS}", f"*/*/{_ARGS}")
    files = (path for root in roots for pattern in patterns for path in root.glob(pattern))
    paths = {path for path in files if path.is_file()}
    return [p.parent for p in sorted(paths, key=lambda path: (-path.stat().st_mtime, str(path)))]


def read_run(folder: str | Path) -> Run:
    """Read a run directory. Raises ``UserError`` for anything else.

    A last row that a kill tore is left out (and left on the disk).
    """
    path = Path(folder).expanduser()
    if not (path / _ARGS).is_file():
        raise UserError(f"'{folder}' is no run directory: it has no {_ARGS}")
    with user_error_context(f"cannot read the run '{folder}'"):
        args = parse_json((path / _ARGS).read_text(encoding="utf-8"))
        ended = (path / _SUMMARY).is_file()
        summary = parse_json((path / _SUMMARY).read_text(encoding="utf-8")) if ended else {}
        files = [*sorted(path.glob("*.jsonl.gz")), *sorted(path.glob("*.jsonl"))]
        # Files only: reading a pipe that somebody put there would wait for ever.
        tables = {file.name.partition(".")[0]: read_rows(file) for file in files if file.is_file()}
    if not isinstance(args, dict) or not isinstance(summary, dict):
        raise UserError(f"'{folder}' is no run directory: {_ARGS} holds no arguments")
    images = [p for p in sorted(path.glob("*.png")) if p.is_file() and p.stat().st_size <= _PICTURE]
    return Run(path, args, summary, tables, tuple(images))


def outcome_of(row: Mapping[str, Any]) -> Outcome:
    """Say how an episode ended: success (reward 1), partial, failed (reward 0), or an error."""
    if row.get("error"):
        return "errors"
    reward = float(row.get("reward") or 0.0)
    return "success" if reward >= 1.0 else "partial" if reward > 0 else "failed"


def read_stories(runs: Path) -> list[dict[str, Any]]:
    """Return the stories of the page beside the folder ``runs``; those whose run is not there go.

    A story is a run in a sentence: title, text, run, and bars of the figures that it speaks of: (agent,
    share, words).
    """
    page = runs.parent / "stories.yaml"
    if not page.is_file():
        return []
    rows = yaml.safe_load(page.read_text(encoding="utf-8"))
    return [_fill(row, read_run(runs / row["run"])) for row in rows if (runs / row["run"]).is_dir()]


def _fill(row: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Fill a story with its run's figures. Raises ``UserError`` where the run has none of the kind."""
    metric, bars, values = row["metric"], [], []
    row_of: Mapping[str, Any] = {}
    for agent in row["agents"]:
        # The first row of an agent is that over everything; families and parts follow.
        rows = [r for r in run.summary.get("rows") or () if r.get("agent") == agent and metric in r]
        if not rows:
            raise UserError(f"run '{row['run']}' has no {metric} of '{agent}'")
        row_of = rows[0]
        value, error = 100 * float(row_of[metric]), row_of.get(f"{metric}_se")
        spread = f" ± {100 * float(error):.1f}" if error is not None else ""
        bars.append((agent, value / 100, f"{value:.1f} %{spread}"))
        values.append(value)
    words = {"abcdefgh"[i]: f"{value:.0f}" for i, value in enumerate(values)}
    words |= {"n": f"{row_of['n']:,}", "difference": f"{abs(values[1] - values[0]):.0f}"}
    texts = {name: row[name].format(**words) for name in ("title", "text")}
    return {**texts, "run": run.folder, "bars": bars}


# Summaries ---------------------------------------------------------------------------------------


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return summary rows as a table for a terminal."""
    from tabulate import tabulate

    heads, data = cells(rows)
    return tabulate(data, heads, tablefmt="simple", disable_numparse=True)


def cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the cells of summary rows, each value ± its standard error."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [c for c in columns if _BESIDE.sub("", c) not in {*columns} - {c}]
    if not any(row.get("cost") for row in rows):  # a local model's is nil
        columns = [column for column in columns if column != "cost"]
    heads = [_SHOWN.get(column, (column, 1, 0))[0] for column in columns]
    return heads, [[_cell(row, column) for column in columns] for row in rows]


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return a summary for a terminal: its rows, mean ± standard error, and its main tests."""
    rows = [row for row in summary["rows"] if row.get("category", "all") == "all"]
    if any("tokens_per_step" in row or "turn_any_5" in row for row in rows):
        rows = [{k: v for k, v in row.items() if k.removesuffix("_se") in _COLUMNS} for row in rows]
    lines = [table(rows)]
    for test in summary["tests"]:
        if test["metric"] in _TESTED and test.get("dataset") in (None, "average"):
            head = f"{test['experiment']}: " if "experiment" in test else ""
            lines.append(
                f"{head}{test['b']} against {test['a']}: {test['metric']} {test['difference']:+.3f} "
                f"(95 % interval {test['low']:+.3f} to {test['high']:+.3f}), p = {test['p']:.3f}"
            )
    return "\n".join(lines)


def _cell(row: Mapping[str, Any], metric: str) -> str:
    value, error = row.get(metric), row.get(f"{metric}_se")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if metric not in _SHOWN:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"{text} ± {error:.2g}" if isinstance(error, float) else text
    _, factor, decimals = _SHOWN[metric]
    text = f"{value * factor:.{decimals}f}"
    return text if error is None else f"{text} ± {error * factor:.{decimals}f}"
