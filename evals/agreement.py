"""Do actors agree on the order of context builders? Live runs on the same goals are compared.

python -m evals.agreement runs/rule runs/policy runs/chat --same retrieve=retrieve-trained \
    --out runs/actors-agree

For every two runs: Kendall's tau-b between the mean scores of the builders that both have, over the
goals that both played, with a bootstrap interval over goals; and the pairs of builders whose order is
reversed, with each actor's paired difference. Runs are named by their folders.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from evals.read_run import read_run
from evals.report import figures
from evals.run_directory import RunDirectory, provenance, shown_path
from evals.statistics import mean, paired
from stores.errors import UserError, mistakes_in_one_line

Rewards = dict[str, dict[int, float]]


def rewards_of(folder: Path, same: Mapping[str, str], skip: Sequence[str] = ()) -> Rewards:
    """Return agent → goal → reward of a live run; ``same`` renames agents, ``skip`` drops them."""
    found: Rewards = {}
    for agent, rewards in read_run(folder).rewards.items():
        name = same.get(agent, agent)
        if name not in skip:
            found.setdefault(name, {}).update(rewards)
    if not found:
        raise UserError(f"'{folder}' holds no episodes: name a run of stategate eval live")
    return found


def tau(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Kendall's tau-b of two score vectors; nan where one of them has no order."""
    from scipy.stats import kendalltau

    return float(kendalltau(a, b).statistic)


def agree(a: Rewards, b: Rewards, draws: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Compare two runs: {n, builders, tau, low, high, reversed: [[higher in a, lower in a]]}."""
    names = sorted(set(a) & set(b))
    goals = sorted(set.intersection(*(set(a[name]) & set(b[name]) for name in names), set(a[names[0]]))
                   if names else ())  # fmt: skip
    if len(names) < 2 or not goals:
        raise UserError("two runs need two agents of the same names and a goal in common (--same)")
    tables = [np.array([[run[name][goal] for goal in goals] for name in names]) for run in (a, b)]
    means = [table.mean(1) for table in tables]
    rng = np.random.default_rng(seed)
    taus = []
    for _ in range(draws):
        pick = rng.integers(len(goals), size=len(goals))
        taus.append(tau(tables[0][:, pick].mean(1), tables[1][:, pick].mean(1)))
    low, high = np.nanpercentile(taus, [2.5, 97.5])
    reversed_ = []
    for i, j in itertools.permutations(range(len(names)), 2):
        if means[0][i] > means[0][j] and means[1][i] < means[1][j]:
            tests = [paired(table[j], table[i], seed) for table in tables]
            reversed_.append({"better": names[i], "worse": names[j],
                              "differences": [vars(test) for test in tests]})  # fmt: skip
    return {
        "n": len(goals), "builders": names, "tau": tau(means[0], means[1]),
        "low": float(low), "high": float(high), "reversed": reversed_,
    }  # fmt: skip


def run_agreement(
    folders: Sequence[Path], same: Mapping[str, str], out: str, skip: Sequence[str] = (),
    seed: int = 0, command: Sequence[str] = ("run_agreement",),
) -> dict[str, Any]:  # fmt: skip
    """Compare every two of ``folders``; a row a pair."""
    told = {folder.name: rewards_of(folder, same, skip) for folder in folders}
    data = [json.loads((folder / "args.json").read_text("utf-8")).get("data") for folder in folders]
    if any(one != data[0] for one in data):
        raise UserError("the runs were played on different data: compare runs on the same goals")
    run = RunDirectory(out, {**provenance(command), "data": data[0], "seed": seed,
                             "runs": [shown_path(str(folder)) for folder in folders]})  # fmt: skip
    rows, details = [], []
    pairs = list(itertools.combinations(told, 2))
    for a, b in tqdm(pairs, unit="pair", disable=None):
        found = agree(told[a], told[b], seed=seed)
        details.append({"a": a, "b": b, **found})
        rows.append({"agent": f"{a} and {b}", "builders": len(found["builders"]),
                     **{key: found[key] for key in ("n", "tau", "low", "high")},
                     "reversed": len(found["reversed"])})  # fmt: skip
    run.keep("pairs", lambda _: False)
    run.append("pairs", *details)
    scores = [
        {"agent": f"{name}: {agent}", "n": len(goals), "score": 100 * mean(list(goals.values())),
         "success": 100 * mean([float(value == 1) for value in goals.values()])}
        for name, one in told.items() for agent, goals in one.items()
    ]  # fmt: skip
    run.append("scores", *scores)
    return run.summarise(rows, [])


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.agreement", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="two or more run directories")
    parser.add_argument("--same", action="append", default=[], metavar="NAME=OTHER",
                        help="agents of two names are one; repeatable")  # fmt: skip
    parser.add_argument("--skip", action="append", default=[], help="leave this agent out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="a new run directory")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        if any("=" not in item for item in given.same) or len(given.runs) < 2:
            raise UserError("name two runs at least, and --same as NAME=OTHER")
        same = dict(item.split("=", 1) for item in given.same)
        command = ["python", "-m", "evals.agreement", *words]
        summary = run_agreement(given.runs, same, given.out, given.skip, given.seed, command)
    sys.stdout.write(figures(summary["rows"]) + "\n")


if __name__ == "__main__":
    main()
