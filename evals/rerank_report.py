"""The reranking page: tables and a plot from run directories, never by hand.

    python -m evals.rerank_report runs/rerank-test --intro docs/results/rico.intro.md \
        --out docs/results/rico.md

The ``args.json`` and ``summary.json`` behind each table are copied to ``runs/NAME`` beside the page.
A run of ``evals.rico_examples`` becomes its picture and a table of which claims hold.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.rerank_metrics import AVERAGE
from evals.rico_tables import draw_cost, p_of, short, table_of
from stores.errors import UserError, mistakes_in_one_line


def section(folder: Path, args: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Return one run's section: what it was, nDCG by set, the other metrics, the tests."""
    rows = summary["rows"]
    counts = {row["dataset"]: row["n"] for row in rows}
    commits = [args["commit"], *(part["commit"] for part in args.get("resumed", []))]
    facts = (
        f"Split `{args['split']}`, pool `{args['pool']}`, model `{args['model']}`, "
        f"loss `{args['loss']}`, states {args['states']}, {args['steps']} steps where any; n = "
        + ", ".join(f"{count} {name}" for name, count in counts.items())
        + f"; data SHA-256 `{args['data']['sha256'][:12]}…`; commit "
        + ", then ".join(f"`{commit[:12]}`" for commit in commits)
        + "."
    )
    parts = [f"## {folder.name}", facts, f"`{args['command']}`", ndcg_table(rows), cost_table(rows)]
    return "\n\n".join([*parts, "Paired tests, nDCG@10:", tests_table(summary["tests"])])


def ndcg_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return nDCG@10 with its 95 % bootstrap interval, a column a dataset."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    lines = [f"| nDCG@10 | {' | '.join(datasets)} |", "|---" * (len(datasets) + 1) + "|"]
    for name in dict.fromkeys(row["agent"] for row in rows):
        mine = {row["dataset"]: row for row in rows if row["agent"] == name}
        cells = [
            f"{short(mine[d]['ndcg'])} [{short(mine[d]['ndcg_low'])}, {short(mine[d]['ndcg_high'])}]"
            for d in datasets
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cost_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the average over datasets of the other metrics, with time and model calls."""
    lines = [
        "| average | MAP | P@2 | R@2 | R@5 | seconds a question | model calls |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["dataset"] == AVERAGE:
            cells = [
                f"{short(row[m])} ± {short(row[f'{m}_se'])}" for m in ("map", "p2", "r2", "r5")
            ]
            cost = f"{row.get('seconds', 0):.2f} | {row.get('calls', 0):.1f}"
            lines.append(f"| {row['agent']} | {' | '.join(cells)} | {cost} |")
    return "\n".join(lines)


def tests_table(tests: Sequence[Mapping[str, Any]]) -> str:
    """Return the paired tests of the average over datasets."""
    lines = ["| from | to | difference | 95 % interval | p |", "|---|---|---|---|---|"]
    for test in tests:
        if test["dataset"] == AVERAGE:
            lines.append(
                f"| {test['a']} | {test['b']} | {test['difference']:+.3f} "
                f"| {test['low']:+.3f} to {test['high']:+.3f} | {p_of(test)} |"
            )
    return "\n".join(lines)


def examples_section(
    folder: Path, args: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> str:
    """Return the motivating examples: the picture, and which claims hold."""
    rankers = list(dict.fromkeys(row["agent"] for row in rows))
    lines = [f"| claim | {' | '.join(rankers)} |", "|---" * (len(rankers) + 1) + "|"]
    for claim in dict.fromkeys(row["claim"] for row in rows):
        held = {row["agent"]: row["holds"] for row in rows if row["claim"] == claim}
        lines.append(
            f"| {claim} | {' | '.join('holds' if held[r] else 'fails' for r in rankers)} |"
        )
    facts = (
        f"Model `{args['model']}`; one example each (★: what should win); "
        f"commit `{args['commit'][:12]}`."
    )
    picture = f"![Weights and a loss landscape]({folder.name}.png)"
    return "\n\n".join(
        [f"## {folder.name}", facts, f"`{args['command']}`", picture, "\n".join(lines)]
    )


def report(folders: Sequence[Path], out: Path, intro: Path | None = None) -> None:
    """Write the page and its plot, and copy what they were made from. Raises ``UserError``."""
    parts = [intro.read_text("utf-8").strip() if intro else f"# {out.stem}"]
    out.parent.mkdir(parents=True, exist_ok=True)
    drawn = None
    for folder in folders:
        try:
            args = json.loads((folder / "args.json").read_text("utf-8"))
            summary = json.loads((folder / "summary.json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"'{folder}' is no finished run directory ({error})") from None
        other = table_of(summary["rows"], summary["tests"])
        if other is not None:
            parts += [f"## {folder.name}", f"`{args['command']}`; commit `{args['commit'][:12]}`."]
            parts.append(other)
            if "load_seconds" in summary["rows"][0]:
                draw_cost(summary["rows"], out.parent / f"{folder.name}.png")
                parts.append(f"![Cost by the number of documents]({folder.name}.png)")
        elif "example" in summary["rows"][0]:
            parts.append(examples_section(folder, args, summary["rows"]))
            shutil.copyfile(folder / "examples.png", out.parent / f"{folder.name}.png")
        else:
            parts.append(section(folder, args, summary))
            drawn = drawn or summary["rows"]
        kept = out.parent / "runs" / folder.name
        kept.mkdir(parents=True, exist_ok=True)
        for name in ("args.json", "summary.json"):
            if (kept / name).resolve() != (folder / name).resolve():
                shutil.copyfile(folder / name, kept / name)
    if drawn:
        picture = out.with_suffix(".png")
        plot(drawn, picture)
        parts.insert(1, f"![nDCG@10 by ranker and dataset]({picture.name})")
    out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw nDCG@10 and its 95 % interval, a panel a dataset."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    names = list(dict.fromkeys(row["agent"] for row in rows))
    figure, axes = pyplot.subplots(
        1, len(datasets), figsize=(3.2 * len(datasets) + 2, 0.32 * len(names) + 1.2),
        sharey=True, squeeze=False,
    )  # fmt: skip
    for axis, dataset in zip(axes[0], datasets, strict=True):
        for place, name in enumerate(reversed(names)):
            row = next(r for r in rows if r["agent"] == name and r["dataset"] == dataset)
            axis.plot([row["ndcg_low"], row["ndcg_high"]], [place, place], color="0.5")
            axis.plot(
                row["ndcg"], place, "o", color="tab:orange" if "gradient" in name else "tab:blue"
            )
        axis.set(title=f"{dataset} (n={row['n']})", xlabel="nDCG@10")
        axis.set_yticks(range(len(names)), names[::-1], fontsize=8)
        axis.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rerank_report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--intro", type=Path)
    given = parser.parse_args(argv)
    with mistakes_in_one_line():
        report(given.runs, given.out, given.intro)


if __name__ == "__main__":
    main()
