"""Plots of the QA experiments: a panel an experiment, and quality against latency."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
_SHOWN = {"hit3": "Hit@3", "mrr": "MRR", "ndcg": "nDCG@10", "similarity": "similarity"}
_KINDS = {
    "right": "all",
    "right_follow_up": "follow-up",
    "right_recall": "recall",
    "right_cross_session": "cross-session",
    "right_entity": "entity",
}


def plot_qa(rows: Sequence[Row], path: Path) -> None:
    """Draw one panel of bars an experiment, and MRR against seconds a question."""
    pyplot = _pyplot()
    made = [row for row in rows if "note" not in row]
    experiments = list(dict.fromkeys(row["experiment"] for row in made))
    count = len(experiments) + 1
    figure, axes = pyplot.subplots(count, 1, figsize=(8, 2.9 * count), squeeze=False)
    for axis, experiment in zip(axes[:, 0], experiments, strict=False):
        _bars(axis, [row for row in made if row["experiment"] == experiment], _SHOWN)
        axis.set(title=f"Experiment {experiment}", ylim=(0, 1.08))
    last = axes[-1][0]
    for row in {row["agent"]: row for row in made}.values():
        last.errorbar(
            row["seconds_p50"], row["mrr"], yerr=row["mrr_se"] or 0, marker="o", capsize=3,
            linestyle="", label=row["agent"],
        )  # fmt: skip
    last.set(xlabel="seconds a question (p50)", ylabel="MRR", title="Quality and latency")
    last.legend(fontsize=7, ncols=2)
    last.grid(alpha=0.3)
    _save(pyplot, figure, path)


def plot_memory(rows: Sequence[Row], path: Path) -> None:
    """Draw right answers by kind of turn, a bar a memory policy."""
    pyplot = _pyplot()
    figure, axis = pyplot.subplots(figsize=(8, 3.4))
    _bars(axis, rows, _KINDS)
    axis.set(ylabel="right answers (share)", ylim=(0, 1.08))
    _save(pyplot, figure, path)


def _bars(axis: Any, rows: Sequence[Row], metrics: Mapping[str, str]) -> None:
    width = 0.8 / max(len(rows), 1)
    for i, row in enumerate(rows):
        places = [j + (i - (len(rows) - 1) / 2) * width for j in range(len(metrics))]
        heights = [row.get(metric) or 0 for metric in metrics]
        errors = [row.get(f"{metric}_se") or 0 for metric in metrics]
        axis.bar(places, heights, width * 0.92, yerr=errors, capsize=2, label=row["agent"])
    axis.set_xticks(range(len(metrics)), list(metrics.values()))
    axis.legend(fontsize=7, ncols=4, loc="lower right")
    axis.grid(alpha=0.3, axis="y")


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
