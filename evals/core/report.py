"""Summaries of run directories as tables."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: metric: (heading, factor, decimals). Others are shown under their own name, with four digits.
_SHOWN: dict[str, tuple[str, int, int]] = tomllib.loads(
    Path(__file__).with_name("metrics.toml").read_text("utf-8")
)
#: Columns of episodes and of evidence that fit a terminal; where there are others, these are shown.
_COLUMNS = frozenset(
    "agent n success score steps tokens_per_step seconds turn_any_5 turn_all_5 turn_any_10"
    " turn_any_in600 session_any_5 abstention_auc".split()
)
_TESTED = ("score", "ndcg", "right", "f1", "needs_shown")
#: Bounds of intervals and standard errors stand beside their value or not at all.
_BESIDE = re.compile(r"_(se|low|high)$")


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return summary rows as a table, each value ± its standard error."""
    from tabulate import tabulate

    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [c for c in columns if _BESIDE.sub("", c) not in {*columns} - {c}]
    if not any(row.get("cost") for row in rows):  # a local model's is nil
        columns = [column for column in columns if column != "cost"]
    cells = [[_cell(row, column) for column in columns] for row in rows]
    heads = [_SHOWN.get(column, (column, 1, 0))[0] for column in columns]
    return tabulate(cells, heads, tablefmt="simple", disable_numparse=True)


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
