"""The work of ``stategate eval rerank``: check what was asked, run it, show the table."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from stores.errors import UserError
from ui.cli.output import check_target, console, write_json

_CHOICES = {
    "split": ("dev", "test"),
    "pool": ("given", "bm25"),
    "loss": ("content", "mean"),
    "states": ("fp32", "fp16", "int8"),
}


def evaluate_rerank(
    given: Mapping[str, Any],
    *,
    out: str,
    data: str | None,
    folder: str | None,
    threads: int | None,
    json_target: str | None,
) -> None:
    """Run the evaluation. Raises ``UserError`` for a choice that does not exist."""
    for name, choices in _CHOICES.items():
        if given[name] not in choices:
            raise UserError(f"--{name} is one of {', '.join(choices)}, not '{given[name]}'")
    check_target(json_target)
    from evals.rerank import run_rerank
    from evals.rerank_scorer import DEFAULT_RANKERS, Settings

    values = dict(given)
    values["rankers"] = _names(values["rankers"]) or DEFAULT_RANKERS
    values["datasets"] = _names(values["datasets"])
    if threads:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        import torch

        torch.set_num_threads(threads)
    command = ["stategate", *sys.argv[1:]]
    summary = run_rerank(Settings(**values), out, data, folder, command)
    if json_target is not None:
        write_json(json_target, summary)
    if json_target != "-":
        _show(summary)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _show(summary: Mapping[str, Any]) -> None:
    from rich.table import Table

    out = console()
    rows = summary["rows"]
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    table = Table(box=None, pad_edge=False, title="nDCG@10 ± standard error", title_justify="left")
    table.add_column("ranker", style="bold")
    for dataset in datasets:
        count = next(row["n"] for row in rows if row["dataset"] == dataset)
        table.add_column(f"{dataset}\nn={count}", justify="right")
    table.add_column("seconds", justify="right", style="dim")
    for name in dict.fromkeys(row["agent"] for row in rows):
        mine = [row for row in rows if row["agent"] == name]
        cells = [f"{row['ndcg']:.3f} ± {row['ndcg_se'] or 0:.3f}" for row in mine]
        table.add_row(name, *cells, f"{mine[0].get('seconds', 0):.2f}")
    out.print(table)
    for test in summary["tests"]:
        if test["dataset"] == "average":
            out.print(
                f"{test['b']} against {test['a']}: {test['difference']:+.3f} "
                f"({test['low']:+.3f} to {test['high']:+.3f}), p {test['p']:.3f}",
                style="dim",
            )
