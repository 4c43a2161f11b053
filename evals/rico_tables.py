"""Tables of the page about RICO, one kind of run each, and the picture of what a ranking costs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.rerank_metrics import AVERAGE

Row = Mapping[str, Any]


def table_of(rows: Sequence[Row], tests: Sequence[Row]) -> str | None:
    """Return the table of a run that is no ranking, None if it is one."""
    first = rows[0]
    if "bytes" in first:
        return forms_table(rows, tests)
    if "load_seconds" in first:
        return cost_table(rows)
    if "answer_loss" in first:
        return values_table(rows, tests, "answer_loss", "answer's loss, nats a token")
    if "f1" in first:
        return values_table(rows, tests, "f1", "token F1")
    if "form_ndcg" in first:
        return values_table(rows, tests, "form_ndcg", "nDCG@10")
    if "weights" in first and "holds" not in first:
        return fusion_table(rows, tests)
    return None


def forms_table(rows: Sequence[Row], tests: Sequence[Row]) -> str:
    """Return bytes a document and nDCG by the form in which states are kept."""
    gaps = {test["b"]: test for test in tests}
    head = f"nDCG@10 (n = {rows[0]['n']})"
    lines = [
        f"| states kept | bytes a document | of the first | {head} | difference |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        share = row["bytes"] / rows[0]["bytes"]
        lines.append(
            f"| {row['agent']} | {row['bytes']:,.0f} | {share:.0%} | {interval_of(row, 'ndcg')} "
            f"| {gap(gaps.get(row['agent']))} |"
        )
    return "\n".join(lines)


def cost_table(rows: Sequence[Row]) -> str:
    """Return seconds and model calls by the number of documents, and the paragon's multiple."""
    names = list(dict.fromkeys(row["agent"] for row in rows))
    paragon = {row["documents"]: row["seconds"] for row in rows if row["agent"] == "loss"}
    head = " | ".join(f"{name}: calls | seconds | `loss` takes" for name in names if name != "loss")
    lines = [f"| documents | states read, s | `loss`: calls | seconds | {head} |"]
    lines.append("|---" * (4 + 3 * (len(names) - 1)) + "|")
    for count in dict.fromkeys(row["documents"] for row in rows):
        mine = {row["agent"]: row for row in rows if row["documents"] == count}
        cells = [f"{count}", f"{mine['loss']['load_seconds']:.2f}"]
        cells += [f"{mine['loss']['calls']:.0f}", f"{mine['loss']['seconds']:.2f}"]
        for name in names:
            if name != "loss":
                seconds = mine[name]["seconds"]
                ratio = paragon[count] / seconds if seconds else float("nan")
                cells += [f"{mine[name]['calls']:.0f}", f"{seconds:.2f}", f"{ratio:.1f}×"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def values_table(rows: Sequence[Row], tests: Sequence[Row], metric: str, title: str) -> str:
    """Return one metric by agent and dataset, and paired tests of the average."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    counts = {row["dataset"]: row["n"] for row in rows}
    has_whole = any("whole" in row for row in rows)
    heads = [f"{name} (n = {counts[name]})" for name in datasets]
    heads += ["all it needs was read"] if has_whole else []
    lines = [f"| {title} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for agent in dict.fromkeys(row["agent"] for row in rows):
        mine = {row["dataset"]: row for row in rows if row["agent"] == agent}
        cells = [interval_of(mine[name], metric) for name in datasets]
        cells += [f"{mine[AVERAGE]['whole']:.0%}"] if has_whole else []
        lines.append(f"| {agent} | {' | '.join(cells)} |")
    told = [f"- {test['b']} against {test['a']}: {gap(test)}, p {p_of(test)}" for test in tests]
    return "\n".join([*lines, "", *told])


def fusion_table(rows: Sequence[Row], tests: Sequence[Row]) -> str:
    """Return equal against learned weights."""
    lines = ["| fusion | weights | nDCG@10 |", "|---|---|---|"]
    for row in rows:
        weights = ", ".join(f"{name} {value:.2f}" for name, value in row["weights"].items())
        lines.append(
            f"| {row['agent']} (n = {row['n']}) | {weights} | {interval_of(row, 'ndcg')} |"
        )
    told = [f"- {test['b']} against {test['a']}: {gap(test)}, p {p_of(test)}" for test in tests]
    return "\n".join([*lines, "", *told])


def draw_cost(rows: Sequence[Row], path: Path) -> None:
    """Draw seconds and model calls by the number of documents."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for name in dict.fromkeys(row["agent"] for row in rows):
        mine = [row for row in rows if row["agent"] == name]
        for axis, value in zip(axes, ("seconds", "calls"), strict=True):
            axis.plot([r["documents"] for r in mine], [r[value] for r in mine], "o-", label=name)
    for axis, title in zip(axes, ("processor seconds a question", "model calls"), strict=True):
        axis.set(xlabel="documents, states cached", title=title, xscale="log", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def interval_of(row: Row, metric: str) -> str:
    """Return a value with its 95 % interval."""
    low, high = row[f"{metric}_low"], row[f"{metric}_high"]
    return f"{short(row[metric])} [{short(low)}, {short(high)}]"


def gap(test: Row | None) -> str:
    """Return a paired difference with its interval, nothing for the first row."""
    if test is None:
        return ""
    return f"{test['difference']:+.3f} [{test['low']:+.3f}, {test['high']:+.3f}]"


def p_of(test: Row) -> str:
    """Return a p-value as pages show it."""
    return "< .001" if test["p"] < 0.001 else short(test["p"])


def short(value: float | None) -> str:
    """Return a number with three digits and no leading zero."""
    return "" if value is None else f"{value:.3f}".removeprefix("0")
