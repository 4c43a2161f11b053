"""What a ranking costs by the number of documents, once their states are cached.

    python -m evals.rico_cost --questions 3 --out runs/rico-cost

Each question is ranked among 5 to 100 documents (its own and those of other ``.dev`` questions) by one
gradient and by the paragon that tries each document alone (``loss``). Seconds are of processor time,
because other programs run beside; reading a document for the first time is told apart.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evals.multihop import data_folder, data_hash, datasets_in, load_questions
from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.rico.backend import Document, Query
from nodes.build_context.rico.rankers import rank
from stores.errors import UserError, mistakes_in_one_line

COUNTS = (5, 10, 20, 50, 100)
RANKERS = ("single_gradient", "zero_state", "loss")


def run_cost(
    out: str | Path,
    questions: int,
    counts: Sequence[int] = COUNTS,
    model: str = "smollm2-135m",
    data: str | None = None,
    command: Sequence[str] = ("run_cost",),
) -> dict[str, Any]:
    """Time every ranker at every number of documents; goes on where it stopped."""
    from tqdm import tqdm

    from nodes.build_context.rico.index import build_states, open_states, read_states
    from nodes.build_context.rico.loading import load_backend

    folder = data_folder(data)
    names = datasets_in(folder, "dev")
    asked = load_questions(folder, "dev", names, 20)
    everything = list(dict.fromkeys(d for q in asked for d in q.documents))
    if len(everything) < max(counts):
        raise UserError(f"there are {len(everything)} documents: ask for fewer than {max(counts)}")
    args = {
        **provenance(command), "seed": 0, "checkpoints": {}, "split": "dev", "counts": list(counts),
        "questions": questions, "model": shown_path(model),
        "data": {"sha256": data_hash(folder, "dev", names)},
    }  # fmt: skip
    run = RunDirectory(out, args)
    done = {(row["id"], row["documents"], row["ranker"]) for row in run.rows("costs")}
    backend = load_backend(model)
    store = open_states(backend)
    rng = np.random.default_rng(0)
    todo = [(q, n) for q in asked[:questions] for n in counts]
    for question, count in tqdm(todo, unit="pool", disable=None):
        own = list(question.documents)[:count]
        rest = [d for d in everything if d not in set(own)]
        more = rng.permutation(len(rest))[: count - len(own)]
        pool: list[Document] = [*own, *(rest[i] for i in more)]
        wanted = [name for name in RANKERS if (question.id, count, name) not in done]
        if not wanted:
            continue
        build_states(backend, store, pool, quiet=True)
        states, loaded = _timed(partial(read_states, store, pool))
        query = Query(question.question)
        for name in wanted:
            found, seconds = _timed(partial(rank, name, backend, states, query))
            run.append("costs", {
                "id": question.id, "documents": count, "ranker": name, "calls": found.calls,
                "seconds": round(seconds, 4), "load_seconds": round(loaded, 4),
            })  # fmt: skip
    return _summarise(run, counts)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def _summarise(run: RunDirectory, counts: Sequence[int]) -> dict[str, Any]:
    rows = []
    for name in RANKERS:
        for count in counts:
            mine = [r for r in run.rows("costs") if r["ranker"] == name and r["documents"] == count]
            seconds = np.asarray([row["seconds"] for row in mine])
            error = float(seconds.std(ddof=1) / np.sqrt(len(seconds))) if len(mine) > 1 else None
            rows.append({
                "agent": name, "documents": count, "n": len(mine),
                "calls": float(np.mean([row["calls"] for row in mine])),
                "seconds": float(seconds.mean()), "seconds_se": error,
                "load_seconds": float(np.mean([row["load_seconds"] for row in mine])),
            })  # fmt: skip
    return run.summarise(rows, [])


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rico_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--questions", type=int, default=3)
    parser.add_argument("--model", default="smollm2-135m")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    command = ["python", "-m", "evals.rico_cost", *words]
    with mistakes_in_one_line():
        summary = run_cost(given.out, given.questions, model=given.model, command=command)
    for row in summary["rows"]:
        sys.stdout.write(
            f"{row['agent']:16} {row['documents']:4} documents {row['calls']:6.0f} calls "
            f"{row['seconds']:7.2f} s\n"
        )


if __name__ == "__main__":
    main()
