"""Does it matter where the most relevant document stands? The answer's loss, best first and last.

    python -m evals.rico_order --scores runs/rerank-dev --limit 10 --out runs/rico-order

Reads the scores of a reranking run, writes the ``top`` documents one after the other in both orders,
and asks the model for the answer's loss (nats a token; lower is better). Documents are read together
here, as a chat model would, not apart.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals.rerank_metrics import AVERAGE, compare, rows_by_dataset
from evals.rerank_scores import read_scores
from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.rico.backend import Document, Query
from stores.errors import mistakes_in_one_line

ORDERS = ("best_first", "best_last")


def run_order(
    scores: str | Path,
    out: str | Path,
    ranker: str,
    limit: int,
    top: int,
    model: str = "smollm2-135m",
    data: str | None = None,
    command: Sequence[str] = ("run_order",),
) -> dict[str, Any]:
    """Measure both orders on the run's questions, and return the summary; goes on where it stopped."""
    import torch
    from tqdm import tqdm

    from nodes.build_context.rico.loading import load_backend

    scored = read_scores(scores, [ranker], limit, data)
    args = {
        **provenance(command), "seed": 0, "checkpoints": {}, "model": shown_path(model),
        "split": scored.args["split"], "ranker": ranker, "top": top, "limit": limit,
    }  # fmt: skip
    run = RunDirectory(out, args)
    done = {(row["dataset"], row["id"]) for row in run.rows("orders")}
    backend = load_backend(model, max_tokens=2000)
    one = torch.ones(1)
    for question in tqdm(scored.questions, unit="question", disable=None):
        if (question.dataset, question.id) in done:
            continue
        best = scored.best(question, ranker, top)
        query = Query(question.question, question.answer)
        row: dict[str, Any] = {"dataset": question.dataset, "id": question.id}
        for name, order in zip(ORDERS, (best, best[::-1]), strict=True):
            text = "\n\n".join(question.documents[i].shown() for i in order)
            with torch.no_grad():
                loss = backend.loss(backend.encode([Document("", text)]), one, query, "answer")
            row[name] = round(float(loss), 5)
        run.append("orders", row)
    return _summarise(run)


def _summarise(run: RunDirectory) -> dict[str, Any]:
    values: dict[str, dict[str, list[float]]] = {name: {} for name in ORDERS}
    for row in run.rows("orders"):
        for name in ORDERS:
            values[name].setdefault(row["dataset"], []).append(row[name])
    rows: list[dict[str, Any]] = []
    for name in ORDERS:
        rows += rows_by_dataset(name, "answer_loss", values[name])
    first, last = ORDERS
    test = compare(values[first], values[last])
    about = {"a": first, "b": last, "metric": "answer_loss", "dataset": AVERAGE}
    return run.summarise(rows, [{**about, **test}])


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rico_order",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scores", required=True, help="folder of a reranking run")
    parser.add_argument("--out", required=True)
    parser.add_argument("--ranker", default="bm25_stem+minilm+single_gradient")
    parser.add_argument("--limit", type=int, default=10, help="questions of each dataset")
    parser.add_argument("--top", type=int, default=5, help="documents to read")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        command = ["python", "-m", "evals.rico_order", *words]
        summary = run_order(
            given.scores, given.out, given.ranker, given.limit, given.top, command=command
        )
    sys.stdout.write(json.dumps(summary["tests"][0], indent=2) + "\n")


if __name__ == "__main__":
    main()
