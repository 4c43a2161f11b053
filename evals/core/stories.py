"""Runs told in a sentence each: which figures of which run, as a page of stories names them.

A story is ``{title, text, run, metric, agents}``; title and text are filled with the run's own figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stategate.evals.core.run_directory import Run, read_run
from stategate.stores.errors import UserError

_PAGE = "stories.yaml"


@dataclass(frozen=True)
class Story:
    """A run in a sentence: ``bars`` are (agent, share, words) of the figures that it speaks of."""

    title: str
    text: str
    run: Path
    bars: tuple[tuple[str, float, str], ...]


def read_stories(runs: Path) -> list[Story]:
    """Return the stories of the page beside the folder ``runs``; those whose run is not there go."""
    page = runs.parent / _PAGE
    if not page.is_file():
        return []
    rows = yaml.safe_load(page.read_text(encoding="utf-8"))
    return [_fill(row, read_run(runs / row["run"])) for row in rows if (runs / row["run"]).is_dir()]


def _fill(row: Mapping[str, Any], run: Run) -> Story:
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
    return Story(row["title"].format(**words), row["text"].format(**words), run.folder, tuple(bars))
