"""Tables and plots from run directories, never by hand.

The runs behind a page ``NAME.md`` are packed into ``runs/NAME.tar.xz`` beside it, and each run has a
plot of its own.
"""

import re
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stategate.evals.core.run_directory import Run, read_run
from stategate.stores.errors import UserError
from stategate.stores.runs import new_plot, save_plot

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
    """Return the section of one run: what it was, its table, its tests."""
    parts = [f"## {run.folder.name}", _facts(run.args), f"`{run.args['command']}`"]
    parts.append(table(run.summary["rows"]))
    if run.summary["tests"]:
        parts += ["Paired tests on the same tasks:", format_tests(run.summary["tests"])]
    return "\n\n".join(parts)


def report(folders: Sequence[Path], out: Path) -> None:
    """Write the page, a plot a run, and an archive of what the tables were made from.

    Raises ``UserError`` for a folder that is no finished run, or two of one name.
    """
    runs = [read_run(folder) for folder in folders]
    for run in runs:
        if not run.summary:
            raise UserError(f"'{run.folder}' is no finished run: the command that made it goes on")
    if len({run.folder.name for run in runs}) < len(runs):
        raise UserError("two run directories have one name: rename one, they are packed by name")
    page = [f"# {out.stem.replace('_', ' ')}"]
    out.parent.mkdir(parents=True, exist_ok=True)
    for run in runs:
        page.append(section(run))
        picture = out.with_name(f"{out.stem}-{run.folder.name}.png")
        if plot(run.summary["rows"], picture, run.folder.name):
            page.append(f"![{run.folder.name}]({picture.name})")
    pack([run.folder for run in runs], out.parent / "runs" / f"{out.stem}.tar.xz")
    out.write_text("\n\n".join(page) + "\n", encoding="utf-8")


def pack(folders: Sequence[Path], target: Path) -> None:
    """Write an archive of runs: arguments, summary and rows of each, without steps and pictures."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:xz") as archive:
        for folder in folders:
            for file in sorted(folder.glob("*.json*")):
                if not file.name.startswith("steps."):
                    archive.add(file, f"{folder.name}/{file.name}")


def plot(rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> bool:
    """Draw every share (0 to 1) as bars with standard errors; False where there is none."""
    if any(row.get("dataset") == "average" for row in rows):
        rows = [row for row in rows if row["dataset"] == "average"]
    metrics = [
        name
        for name, (_, factor, decimals) in _SHOWN.items()
        if (factor == 100 or decimals == 3)
        and not name.startswith("seconds")
        and any(isinstance(row.get(name), int | float) for row in rows)
    ]
    if not metrics:
        return False
    figure, axis = new_plot(figsize=(8, 3.8))
    width = 0.8 / len(rows)
    for i, row in enumerate(rows):
        places = [j + (i - (len(rows) - 1) / 2) * width for j in range(len(metrics))]
        heights = [row.get(metric) or 0 for metric in metrics]
        errors = [row.get(f"{metric}_se") or 0 for metric in metrics]
        keys = ("experiment", "agent", "dataset", "what", "part")
        name = " ".join(str(row[key]) for key in keys if row.get(key))
        axis.bar(places, heights, width * 0.92, yerr=errors, capsize=2, label=name)
    heads = [_SHOWN[metric][0].removesuffix(" %") for metric in metrics]
    axis.set_xticks(range(len(metrics)), heads)
    axis.set(title=title, ylim=(0, 1.08))
    axis.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axis.grid(alpha=0.3, axis="y")
    save_plot(figure, path)
    return True


def _facts(args: Mapping[str, Any]) -> str:
    """Return the caption: whatever of the run's arguments a reader wants to know."""
    configs = args.get("agents")
    agents = list(configs.values()) if isinstance(configs, Mapping) else []
    facts = []
    for slot, field in (("actor", "kind"), ("llm", "model"), ("env", "observation")):
        values = dict.fromkeys((agent.get(slot) or {}).get(field) for agent in agents)
        if any(values):
            facts.append(f"{slot} {', '.join(f'`{value}`' for value in values)}")
    data, goals = args.get("data"), args.get("goals")
    if isinstance(goals, list) and goals:
        is_range = goals == list(range(goals[0], goals[-1] + 1))
        facts.append(f"goals {f'{goals[0]}–{goals[-1]}' if is_range else goals} (n = {len(goals)})")
    if isinstance(data, Mapping) and "name" in data:
        digest = f" (SHA-256 `{data['sha256'][:12]}…`)" if "sha256" in data else ""
        facts.append(f"data `{data['name']}`{digest}")
    for key, words in (("max_steps", "at most {} steps"), ("seed", "seed {}")):
        facts += [words.format(args[key])] if key in args else []
    # A commit short, and never without the word that the tree was not clean.
    commits = (str(part.get("commit", "unknown")) for part in (args, *args.get("resumed", [])))
    short = dict.fromkeys(re.sub(r"^(\S{1,12})\S*", r"`\1`", commit) for commit in commits)
    caption = "; ".join([*facts, "commit " + ", then ".join(short)])
    return f"{caption[0].upper()}{caption[1:]}."


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
