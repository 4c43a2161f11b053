"""Leave one task out, and see how often the nearest past state knows the right next move.

python -m evals.experience_retrieval --bank banks/state --out runs/experience-retrieval

Each sampled row of a state bank that led to full reward asks the bank for the state nearest to its own,
all rows of its own task left out; its own move is the right one. Ways of asking: by the state's text,
by the question alone, by the recurrent state, by both (where the bank holds recurrent states), a row
at random, and the bank's commonest move. Only rows of enough worth answer, as online.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evals.experience import fingerprint
from evals.run_directory import RunDirectory, provenance
from evals.statistics import mean, paired, standard_error
from nodes.resources import Resources
from stores.bank.bank import Row
from stores.bank.state_bank import StateBank
from stores.errors import UserError, mistakes_in_one_line

MIN_Q = 5.0


def evaluate(
    bank: StateBank, rows: Sequence[Row], resources: Resources | None, seed: int = 0
) -> dict[str, list[float]]:
    """Return for each way of asking one 1 (right move) or 0 a row of ``rows``."""
    from tqdm import tqdm

    store = bank.bank
    worthy = [row for row in store.rows() if row.q >= MIN_Q]
    if len({row.task for row in worthy}) < 2:
        raise UserError("leaving a task out needs a bank with two tasks or more of enough worth")
    moves = Counter(str(row.data["move"]) for row in worthy)
    commonest = moves.most_common(1)[0][0]
    rng = random.Random(seed)
    keys = ["text", *(["state", "both"] if "state" in store.makes() else [])]
    right: dict[str, list[float]] = {}
    for row in tqdm(rows, unit="state", disable=None):
        query = _vectors(bank, row.n)
        asked: dict[str, str | None] = {key: _answer(bank, query, key, row.task) for key in keys}
        if resources is not None:
            question = next(
                line for line in row.data["state"].splitlines() if line.startswith("Question: ")
            )
            alone = {"text": resources.embedder.embed([question])[0]}
            asked["question alone"] = _answer(bank, alone, "text", row.task)
        other = row
        while other.task == row.task:
            other = rng.choice(worthy)
        asked |= {"random": str(other.data["move"]), "commonest": commonest}
        for name, move in asked.items():
            right.setdefault(name, []).append(float(move == row.data["move"]))
    return right


def sample(bank: StateBank, count: int, seed: int = 0) -> list[Row]:
    """Return up to ``count`` rows of episodes that earned full reward, no slips, seeded."""
    rows = [
        row
        for row in bank.bank.rows()
        if row.data.get("reward") == 1.0 and not str(row.data.get("episode")).startswith("slips/")
    ]
    return random.Random(seed).sample(rows, min(count, len(rows)))


def summarised(right: Mapping[str, Sequence[float]], seed: int) -> tuple[list[Any], list[Any]]:
    """Return a row a way of asking, and paired tests against asking by text."""
    rows = [
        {
            "agent": name, "n": len(values),
            "right_move": mean(values), "right_move_se": standard_error(values),
        }
        for name, values in right.items()
    ]  # fmt: skip
    tests = [
        {
            "a": "text",
            "b": name,
            "metric": "right_move",
            **vars(paired(right["text"], values, seed)),
        }
        for name, values in right.items()
        if name != "text"
    ]
    return rows, tests


def _answer(bank: StateBank, query: Mapping[str, Any], key: Any, task: str) -> str | None:
    """Return the move of the nearest row of enough worth outside ``task``."""
    hits = bank.search(query, 10, key=key, without=[task])
    good = [hit for hit in hits if hit.row.q >= MIN_Q]
    good.sort(key=lambda hit: (-round(hit.score, 4), -hit.row.q, hit.row.n))
    return str(good[0].row.data["move"]) if good else None


def _vectors(bank: StateBank, n: int) -> dict[str, Any]:
    found = bank.bank.query("select key, vector from vectors where n = ?", (n,))
    return {row["key"]: np.frombuffer(row["vector"], dtype="<f4") for row in found}


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.experience_retrieval",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bank", required=True, help="a state bank")
    parser.add_argument("--n", type=int, default=1000, help="states asked for")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--config", default="webshop", help="preset: its embedder")
    parser.add_argument("--out", required=True, help="a new run directory")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        from graph.config import load_config

        settled = load_config(given.config)
        bank = StateBank(given.bank)
        args = {
            **provenance(["python", "-m", "evals.experience_retrieval", *words]),
            "seed": given.seed,
            "n": given.n,
            "min_q": MIN_Q,
            "checkpoints": {"state bank": fingerprint(bank.bank)},
            "makes": bank.bank.makes(),
        }
        run = RunDirectory(given.out, args)
        resources = Resources(settled.llm, settled.embedder)
        asked = sample(bank, given.n, given.seed)
        rows, tests = summarised(evaluate(bank, asked, resources, given.seed), given.seed)
        run.summarise(rows, tests)
    for row in rows:
        told = f"{100 * row['right_move']:5.1f} ± {100 * row['right_move_se']:.1f}"
        sys.stdout.write(f"{row['agent']:16} {told} (n = {row['n']})\n")


if __name__ == "__main__":
    main()
