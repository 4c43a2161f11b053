"""Budget sweep: success against the token budget of the context, a curve a builder.

python -m evals.budget --goals 0-499 --budgets 100,150,200,300,400,600 --out runs/budget
python -m evals.budget --builders full,compress --budgets 100,300 --goals 0-9 --out runs/tiny

Every point is an agent of one live evaluation (same goals, actor and seed), so the run directory, its
resuming and its paired tests are those of ``evals.live``; the first agent is ``full`` without a limit.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals.live import parse_agents, parse_goals, run_live
from stores.errors import UserError

UNBOUNDED = 100_000


def sweep_agents(
    builders: Sequence[str], named: Sequence[str], budgets: Sequence[int]
) -> dict[str, list[str]]:
    """Return the agents ``NAME@BUDGET`` of a sweep, after ``full`` without a limit."""
    agents = {"full": ["context.kind=full", f"context.budget={UNBOUNDED}"]}
    for name, overrides in parse_agents(",".join(builders), named).items():
        for budget in budgets:
            agents[f"{name}@{budget}"] = [*overrides, f"context.budget={budget}"]
    return agents


def run_budget(
    config: str, builders: Sequence[str], named: Sequence[str], budgets: Sequence[int],
    goals: Sequence[int], out: str, overrides: Sequence[str] = (), seed: int = 0,
    command: Sequence[str] = ("run_budget",),
) -> dict[str, Any]:  # fmt: skip
    """Play the sweep (or what is missing of it), draw ``budget.png``; return the summary."""
    if not budgets or min(budgets) < 1:
        raise UserError("name budgets in tokens, such as 100,200,400")
    agents = sweep_agents(builders, named, budgets)
    summary = run_live(config, agents, goals, out, overrides, seed, command)
    plot_sweep([Path(out)], Path(out) / "budget.png")
    return summary


def plot_sweep(folders: Sequence[Path], path: Path) -> None:
    """Draw success against budget, with bands of one standard error; a panel a run."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(folders), figsize=(6.5 * len(folders), 4), squeeze=False, constrained_layout=True
    )
    for axis, folder in zip(axes[0], folders, strict=True):
        rows = json.loads((folder / "summary.json").read_text("utf-8"))["rows"]
        curves: dict[str, list[tuple[int, float, float]]] = {}
        for row in rows:
            name, at, budget = row["agent"].rpartition("@")
            if at:
                point = (int(budget), 100 * row["success"], 100 * (row["success_se"] or 0.0))
                curves.setdefault(name, []).append(point)
            else:
                style = {"full": "-", "oracle": "--"}.get(row["agent"], ":")
                label = f"{row['agent']} ({row.get('tokens_per_step', 0):.0f} tokens/step)"
                label = label if "tokens_per_step" in row else row["agent"]
                axis.axhline(100 * row["success"], color="0.5", ls=style, lw=1, label=label)
        for name, points in curves.items():
            budgets, means, errors = (list(column) for column in zip(*sorted(points), strict=True))
            line = axis.plot(budgets, means, marker="o", ms=3, label=name)[0]
            low = [m - e for m, e in zip(means, errors, strict=True)]
            high = [m + e for m, e in zip(means, errors, strict=True)]
            axis.fill_between(budgets, low, high, color=line.get_color(), alpha=0.2, lw=0)
        axis.set(xlabel="budget (tokens)", ylabel="success %", title=folder.name, xscale="log")
        ticks = sorted({p[0] for points in curves.values() for p in points})
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.budget", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="webshop", help="preset or YAML file")
    parser.add_argument("--builders", default="full,retrieve,compress", help="context kinds")
    parser.add_argument("--agent", action="append", default=[], help="NAME=slot.field=value,…")
    parser.add_argument("--budgets", default="100,150,200,300,400,600,1000")
    parser.add_argument("--goals", default="0-9", help="0-499 or 3,5,8")
    parser.add_argument("--set", action="append", default=[], help="override for every agent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="run directory; resumed if it exists")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    try:
        summary = run_budget(
            given.config, given.builders.split(","), given.agent, parse_budgets(given.budgets),
            parse_goals(given.goals), given.out, given.set, given.seed,
            ["python", "-m", "evals.budget", *words],
        )  # fmt: skip
    except UserError as error:
        sys.stderr.write(f"stategate: {error}\n")
        sys.exit(2)
    from evals.report import table

    sys.stdout.write(table(summary["rows"]) + "\n")


def parse_budgets(text: str) -> list[int]:
    """Read "100,200,400". Raises ``UserError``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"write budgets as 100,200,400, not '{text}'") from None


if __name__ == "__main__":
    main()
