"""Budget sweep: success against the token budget of the context, a curve a builder.

A budget cuts every page at the same size. A ratio (for builders that have one) takes the same share of
every page, so that short pages stay short and long ones keep what the actor cannot do without; its
points are named NAME%SHARE.

Every point is an agent of one live evaluation (same goals, actor and seed), so the run directory, its
resuming and its paired tests are those of :mod:`evals.worlds.live`; the first agent is ``full`` without
a limit.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stategate.evals.worlds.live import parse_agents, run_live
from stategate.stores.errors import UserError
from stategate.stores.plots import new_plot, save_plot

UNBOUNDED = 100_000


def sweep_agents(
    builders: Sequence[str],
    named: Sequence[str],
    budgets: Sequence[int],
    ratios: Sequence[float] = (),
) -> dict[str, list[str]]:
    """Return the agents ``NAME@BUDGET`` and ``NAME%SHARE``, after ``full`` without a limit."""
    from stategate.nodes.registry import registry

    agents = {"full": ["context.kind=full", f"context.budget={UNBOUNDED}", "updater.kind=none"]}
    for name, overrides in parse_agents(",".join(builders), named).items():
        for budget in budgets:
            agents[f"{name}@{budget}"] = [*overrides, f"context.budget={budget}"]
        kind = next(o.partition("=")[2] for o in overrides if o.startswith("context.kind="))
        if ratios and "ratio" in type(registry().parse("context", kind)).model_fields:
            for ratio in ratios:
                limits = [f"context.ratio={ratio}", f"context.budget={UNBOUNDED}"]
                agents[f"{name}%{100 * ratio:.0f}"] = [*overrides, *limits]
    return agents


def run_budget(
    config: str | Mapping[str, Any],
    builders: Sequence[str],
    named: Sequence[str],
    budgets: Sequence[int],
    goals: Sequence[int] | str,
    out: str,
    overrides: Sequence[str] = (),
    seed: int = 0,
    ratios: Sequence[float] = (),
) -> dict[str, Any]:
    """Play the sweep (or what is missing of it), draw ``budget.png``; return the summary."""
    if not budgets or min(budgets) < 1:
        raise UserError("name budgets in tokens, such as 100,200,400")
    if any(not 0 < ratio <= 1 for ratio in ratios):
        raise UserError("ratios are shares of a page, such as 0.3,0.5,0.8")
    agents = sweep_agents(builders, named, budgets, ratios)
    summary = run_live(config, agents, goals, out, overrides, seed)
    plot_sweep(summary["rows"], Path(out) / "budget.png")
    return summary


def plot_sweep(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw success against the tokens that steps really had, a curve a builder; bands: one se."""
    figure, axis = new_plot(figsize=(8, 4.5))
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        success, error = 100 * row["success"], 100 * (row["success_se"] or 0.0)
        spent = row.get("tokens_per_step", 0.0)
        name, at, _ = row["agent"].rpartition("@")
        shared, percent, _ = row["agent"].rpartition("%")
        if at or percent:
            curve = name if at else f"{shared}, share of each page"
            curves.setdefault(curve, []).append((spent, success, error))
        else:
            label = f"{row['agent']} ({spent:.0f} tokens/step)" if spent else row["agent"]
            style = {"full": "-", "oracle": "--"}.get(row["agent"], ":")
            axis.axhline(success, color="0.5", ls=style, lw=1, label=label)
    for name, points in curves.items():
        spent, means, errors = np.array(sorted(points)).T
        (line,) = axis.plot(spent, means, marker="o", ms=3, label=name)
        axis.fill_between(spent, means - errors, means + errors, color=line.get_color(), alpha=0.2)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    axis.set(xlabel="tokens a step, as measured", ylabel="success %")
    save_plot(figure, path)


def parse_budgets(text: str) -> list[int]:
    """Read "100,200,400". Raises ``UserError``."""
    return _parsed(text, int, "budgets as 100,200,400")


def parse_ratios(text: str) -> list[float]:
    """Read "0.3,0.5" ("" is none). Raises ``UserError``."""
    return _parsed(text, float, "ratios as 0.3,0.5") if text else []


def _parsed(text: str, kind: Callable[[str], Any], form: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"write {form}, not '{text}'") from None
