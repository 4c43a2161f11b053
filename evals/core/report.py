"""Tables from run directories, never by hand."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stategate.evals.core.run_directory import Run, read_run
from stategate.stores.errors import UserError
from stategate.stores.files import write_text

#: metric: (heading, factor, decimals). Others are shown under their own name, with four digits.
_SHOWN: dict[str, tuple[str, int, int]] = tomllib.loads(
    Path(__file__).with_name("metrics.toml").read_text("utf-8")
)
#: Columns of episodes that fit a terminal; where there are others, these are shown.
_EPISODES = ("agent", "n", "success", "score", "steps", "tokens_per_step", "seconds")
_TESTED = ("score", "ndcg", "right", "f1", "needs_shown")
#: Bounds of intervals and standard errors stand beside their value or not at all.
_BESIDE = re.compile(r"_(se|low|high)$")


def table(rows: Sequence[Mapping[str, Any]], style: str = "github") -> str:
    """Return summary rows as a table, each value ± its standard error; ``style`` is tabulate's."""
    from tabulate import tabulate

    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [c for c in columns if _BESIDE.sub("", c) not in {*columns} - {c}]
    if not any(row.get("cost") for row in rows):  # a local model's is nil
        columns = [column for column in columns if column != "cost"]
    cells = [[_cell(row, column) for column in columns] for row in rows]
    heads = [_SHOWN.get(column, (column, 1, 0))[0] for column in columns]
    return tabulate(cells, heads, tablefmt=style, disable_numparse=True)


def format_tests(tests: Sequence[Mapping[str, Any]]) -> str:
    """Return paired tests as a table, differences in the unit that :func:`table` shows."""
    from tabulate import tabulate

    extra = [key for key in ("experiment", "dataset") if any(key in test for test in tests)]
    heads = [*extra, "against", "agent", "metric", "n", "difference", "95 % interval", "p"]
    lines = []
    for test in tests:
        name, factor, decimals = _SHOWN.get(test["metric"], (test["metric"], 1, 3))
        difference, low, high = (
            f"{test[key] * factor:+.{decimals}f}" for key in ("difference", "low", "high")
        )
        p = "< .001" if test["p"] < 0.001 else f"{test['p']:.3f}".lstrip("0")
        head = [*(test.get(key, "") for key in extra), test["a"], test["b"], name, test.get("n")]
        lines.append([*head, difference, f"{low} to {high}", p])
    return tabulate(lines, heads, tablefmt="github", disable_numparse=True)


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return a summary for a terminal: its rows, mean ± standard error, and its main tests."""
    rows = summary["rows"]
    if any("tokens_per_step" in row for row in rows):
        rows = [
            {k: v for k, v in row.items() if k.removesuffix("_se") in _EPISODES} for row in rows
        ]
    lines = [table(rows, "simple")]
    for test in summary["tests"]:
        if test["metric"] in _TESTED and test.get("dataset") in (None, "average"):
            head = f"{test['experiment']}: " if "experiment" in test else ""
            lines.append(
                f"{head}{test['b']} against {test['a']}: {test['metric']} {test['difference']:+.3f} "
                f"(95 % interval {test['low']:+.3f} to {test['high']:+.3f}), p = {test['p']:.3f}"
            )
    return "\n".join(lines)


def section(run: Run) -> str:
    """Return the section of one run: what made it, its table, its tests."""
    origins = (f"`{run.args.get(key)}`" for key in ("command", "commit") if key in run.args)
    parts = [f"## {run.folder.name}", ", commit ".join(origins), table(run.summary["rows"])]
    if run.summary["tests"]:
        parts += ["Paired tests on the same tasks:", format_tests(run.summary["tests"])]
    return "\n\n".join(parts)


def report(folders: Sequence[Path], out: Path) -> None:
    """Write a page of tables. Raises ``UserError`` for a folder that is no finished run."""
    runs = [read_run(folder) for folder in folders]
    for run in runs:
        if not run.summary:
            raise UserError(f"'{run.folder}' is no finished run: the command that made it goes on")
    page = [f"# {out.stem.replace('_', ' ')}", *map(section, runs)]
    write_text(out, "\n\n".join(page) + "\n")


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
