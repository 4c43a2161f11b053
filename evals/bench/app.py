"""Benchmarks, each into a run directory; nothing here is asserted by tests.

python -m evals.bench webshop --data sample --out runs/bench-webshop
python -m evals.bench curve --products 1000,10000,100000,1000000 --out runs/bench-curve
python -m evals.bench checkpoints --steps 10,100 --out runs/bench-checkpoints
python -m evals.bench step --data sample --out runs/bench-step
python -m evals.bench actor --data sample --out runs/bench-actor
python -m evals.bench retrieval --passages 10000,200000 --out runs/bench-retrieval
python -m evals.bench embedder --out runs/bench-embedder
python -m evals.bench memory --out runs/bench-memory                        (or --db postgresql://…)
python -m evals.bench ui --out runs/bench-ui                                (needs Chromium)
python -m evals.bench llmlingua --data sample --out runs/bench-llmlingua    (needs llmlingua)
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from evals.run_directory import RunDirectory, provenance, shown_path
from stores.errors import mistakes_in_one_line

_CHOICES: tuple[str, ...] = ("webshop", "curve", "checkpoints", "step", "actor", "llmlingua")
_CHOICES += ("retrieval", "embedder", "memory", "ui")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one benchmark from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=_CHOICES)
    parser.add_argument("--data", default="sample", help="WebShop folder")
    parser.add_argument("--products", default="1000,10000,100000", help="sizes, for 'curve'")
    parser.add_argument("--steps", default="10,100", help="episode lengths, for 'checkpoints'")
    parser.add_argument("--passages", default="10000", help="sizes, for 'retrieval'")
    parser.add_argument("--db", help="PostgreSQL URL, for 'memory'")
    parser.add_argument("--goals", type=int, default=10, help="episodes, for 'llmlingua'")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="a new run directory")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    settings = {**vars(given), "data": shown_path(given.data), "out": shown_path(given.out)}
    settings["db"] = "PostgreSQL" if given.db else None
    with mistakes_in_one_line(ValueError):
        shown = ["postgresql://…" if word == given.db else word for word in words]
        command = ["python", "-m", "evals.bench", *shown]
        run = RunDirectory(given.out, {**provenance(command), **settings})
        rows = _measure(given)
        run.summarise(rows, [])
    sys.stdout.write(json.dumps(rows, indent=2) + "\n")


def _measure(given: argparse.Namespace) -> list[dict[str, Any]]:
    if given.what == "checkpoints":
        from evals.bench_checkpoints import measure

        return measure([int(n) for n in given.steps.split(",")])
    if given.what == "ui":
        from evals.bench_ui import measure_ui

        return measure_ui()
    if given.what == "step":
        from evals.bench_step import measure_step

        return measure_step(given.data, given.seed)
    if given.what == "actor":
        from evals.bench_actor import measure_actor

        return measure_actor(given.data, given.seed)
    if given.what == "llmlingua":
        from evals.bench_llmlingua import measure_llmlingua

        return measure_llmlingua(given.data, given.seed, given.goals)
    if given.what == "retrieval":
        from evals.bench_qa import measure_retrieval

        return measure_retrieval([int(n) for n in given.passages.split(",")], given.seed)
    if given.what == "embedder":
        from evals.bench_qa import measure_embedder

        return measure_embedder(given.seed)
    if given.what == "memory":
        from evals.bench_qa import measure_memory

        return measure_memory(given.db, seed=given.seed)
    from evals.bench_webshop import measure_curve, measure_world

    if given.what == "webshop":
        return measure_world(given.data, seed=given.seed)
    return measure_curve([int(n) for n in given.products.split(",")], given.seed)


if __name__ == "__main__":
    main()
