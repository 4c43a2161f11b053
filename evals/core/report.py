"""Tables and plots from run directories, never by hand.

    python -m evals.report runs/rule runs/chat --out docs/results/webshop_baselines.md

``--intro FILE`` puts a hand-written text first. The ``args.json`` and ``summary.json`` behind each
table are copied to ``runs/NAME`` beside the page.
"""

import argparse
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stores.errors import UserError, mistakes_in_one_line

_HEADS = {
    "success": "success %",
    "score": "score",
    "bought": "bought %",
    "steps": "steps",
    "tokens_per_step": "tokens/step",
    "lost_per_step": "lost/step",
    "model_tokens": "model tokens",
    "cost": "cost $",
    "seconds": "seconds",
    "cpu_seconds": "cpu s",
    "fallbacks": "fallbacks",
    "right_move": "right move %",
}
_PERCENT = ("success", "score", "bought", "right_move")
_DIGITS = {"tokens_per_step": 0, "model_tokens": 0, "seconds": 2, "cpu_seconds": 2, "cost": 4}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a markdown table of summary rows, each value ± its standard error."""
    metrics = [m for m in _HEADS if any(m in row for row in rows)]
    if not any(row.get("cost") for row in rows):  # a local model's is nil
        metrics = [m for m in metrics if m != "cost"]
    lines = [
        "| agent | n | " + " | ".join(_HEADS[m] for m in metrics) + " | errors |",
        "|---|---|" + "---|" * (len(metrics) + 1),
    ]
    for row in rows:
        cells = [_cell(row, metric) for metric in metrics]
        lines.append(
            f"| {row['agent']} | {row['n']} | {' | '.join(cells)} | {row.get('errors', '')} |"
        )
    return "\n".join(lines)


def tests_table(tests: Sequence[Mapping[str, Any]]) -> str:
    """Return a markdown table of paired tests."""
    lines = [
        "| against | agent | metric | difference | 95 % interval | p |",
        "|---|---|---|---|---|---|",
    ]
    for test in tests:
        scale = 100 if test["metric"] in _PERCENT else 1
        low, high = test["low"] * scale, test["high"] * scale
        lines.append(
            f"| {test['a']} | {test['b']} | {_HEADS.get(test['metric'], test['metric'])} "
            f"| {test['difference'] * scale:+.1f} | {low:+.1f} to {high:+.1f} | {_p(test['p'])} |"
        )
    return "\n".join(lines)


def section(folder: Path) -> str:
    """Return the section of one run: what it was, its table, its tests."""
    args, summary = _load(folder)
    if "agents" not in args:
        return _bench_section(folder, args, summary["rows"], summary["tests"])
    goals = args["goals"]
    agents = list(args["agents"].values())
    models = _each((agent.get("llm") or {}).get("model") for agent in agents)
    actors = _each(agent["actor"]["kind"] for agent in agents)
    model = f", model {models}" if "`chat`" in actors else ""
    modes = _each(agent["env"].get("observation") for agent in agents)
    commits = dict.fromkeys(_commit(part) for part in (args, *args.get("resumed", [])))
    span = (
        f"{goals[0]}–{goals[-1]}" if goals == list(range(goals[0], goals[-1] + 1)) else str(goals)
    )
    facts = (
        f"Actor {actors}{model}; goals {span} (n = {len(goals)}); data `{args['data']['name']}` "
        f"(SHA-256 `{args['data']['sha256'][:12]}…`); observation {modes}; "
        f"at most {args['max_steps']} steps; seed {args['seed']}; commit {', then '.join(commits)}."
    )
    command = f"`{args['command']}`"
    parts = [f"## {folder.name}", facts, command, table(summary["rows"])]
    if summary["tests"]:
        parts += ["Paired tests on the same goals:", tests_table(summary["tests"])]
    return "\n\n".join(parts)


def _bench_section(
    folder: Path,
    args: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    tests: Sequence[Mapping[str, Any]],
) -> str:
    """Return the section of a benchmark: every figure of its rows, as measured, and its tests."""
    facts = f"Seed {args['seed']}; commit {_commit(args)}."
    parts = [f"## {folder.name}", facts, f"`{args['command']}`", figures(rows)]
    if tests:
        parts += ["Paired tests:", tests_table(tests)]
    return "\n\n".join(parts)


def figures(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a markdown table of every figure in ``rows``, a standard error beside its value."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    columns = [c for c in columns if not (c.endswith("_se") and c.removesuffix("_se") in columns)]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [_figure(row.get(column, "")) for column in columns]
        for i, column in enumerate(columns):
            if isinstance(error := row.get(f"{column}_se"), float):
                cells[i] += f" ± {error:.2g}"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def report(folders: Sequence[Path], out: Path, intro: Path | None = None) -> None:
    """Write the page, its plot, and copies of what the tables were made from."""
    try:
        lead = intro.read_text("utf-8").strip() if intro else f"# {out.stem.replace('_', ' ')}"
    except OSError as error:
        raise UserError(f"cannot read the intro '{intro}': {error.strerror}") from None
    sections = [section(folder) for folder in folders]
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        raise UserError("two run directories have one name: rename one, copies are kept by name")
    out.parent.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        kept = out.parent / "runs" / folder.name
        if kept.resolve() != folder.resolve():
            kept.mkdir(parents=True, exist_ok=True)
            for name in ("args.json", "summary.json"):
                shutil.copyfile(folder / name, kept / name)
    page = [lead, *sections]
    played = [folder for folder in folders if "agents" in _load(folder)[0]]
    if played:
        picture = out.with_suffix(".png")
        plot(played, picture)
        page.insert(1, f"![Success and tokens by agent]({picture.name})")
    out.write_text("\n\n".join(page) + "\n", encoding="utf-8")


def plot(folders: Sequence[Path], path: Path) -> None:
    """Draw success against tokens per step, an error bar an agent, a panel a run, three in a row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    across = min(3, len(folders))
    down = -(-len(folders) // across)
    figure, axes = pyplot.subplots(
        down, across, figsize=(5 * across, 3.6 * down), squeeze=False, sharey=True
    )
    for axis in axes.flat[len(folders) :]:
        axis.remove()
    for axis, folder in zip(axes.flat, folders, strict=False):
        for row in _load(folder)[1]["rows"]:
            if "tokens_per_step" not in row:
                axis.axhline(100 * row["success"], color="0.6", linestyle="--", linewidth=1)
                continue
            axis.errorbar(
                row["tokens_per_step"], 100 * row["success"],
                xerr=_number(row["tokens_per_step_se"]), yerr=100 * _number(row["success_se"]),
                marker="o", capsize=3, linestyle="", label=row["agent"],
            )  # fmt: skip
        axis.set(title=folder.name, xlabel="tokens per step", ylim=(-2, 102))
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    for left in axes[:, 0]:
        left.set_ylabel("success % (dashed: oracle)")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _load(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        args = json.loads((folder / "args.json").read_text(encoding="utf-8"))
        return args, json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"'{folder}' is no finished run directory ({error})") from None


def _cell(row: Mapping[str, Any], metric: str) -> str:
    if metric not in row:
        return ""
    scale = 100 if metric in _PERCENT else 1
    digits = _DIGITS.get(metric, 1)
    value, error = row[metric], row[f"{metric}_se"]
    shown = f"{value * scale:.{digits}f}"
    return shown if error is None else f"{shown} ± {error * scale:.{digits}f}"


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _each(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(f"`{value}`" for value in values))


def _commit(args: Mapping[str, Any]) -> str:
    """Show a commit short, and never without the word that the tree was not clean."""
    commit, *rest = args["commit"].split(" ", 1)
    return " ".join([f"`{commit[:12]}`", *rest])


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".lstrip("0")


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--intro", type=Path)
    given = parser.parse_args(argv)
    with mistakes_in_one_line():
        report(given.runs, given.out, given.intro)


if __name__ == "__main__":
    main()
