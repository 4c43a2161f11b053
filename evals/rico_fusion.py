"""Would learned weights make a better fusion? Leave one question out, on a reranking run of ``.dev``.

    python -m evals.rico_fusion --scores runs/rerank-dev --out runs/rico-fusion

For every question, weights of the rankers' z-scores are fitted on all other questions so that relevant
documents score above the others (pairwise logistic loss, each question counted once, drawn towards
equal weights) and the left-out question is ranked with them. Nothing is fitted on ``.test``.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.multihop import Question, data_folder, load_questions
from evals.rerank_metrics import AVERAGE, compare, interval, measure
from evals.rerank_summary import row_of
from evals.run_directory import RunDirectory, provenance
from nodes.build_context.rico.fusion import fuse_named, parts_of, z_scores
from stores.errors import UserError, mistakes_in_one_line

Floats = NDArray[np.float64]
#: The fusions whose weights are learned.
FUSIONS = ("bm25_stem+minilm+single_gradient", "bm25_stem+minilm+late_gradient")
_PULL = 0.05  # towards equal weights, in units of one question's loss


def run_fusion(
    scores: str | Path,
    out: str | Path,
    fusions: Sequence[str] = FUSIONS,
    data: str | None = None,
    command: Sequence[str] = ("run_fusion",),
) -> dict[str, Any]:
    """Compare equal with learned weights, and return the summary. Raises ``UserError`` on ``.test``."""
    source = json.loads((Path(scores) / "args.json").read_text("utf-8"))
    if source["split"] != "dev":
        raise UserError(f"'{scores}' is a run of .{source['split']}: weights are learned on .dev")
    lines = (Path(scores) / "scores.jsonl").read_text("utf-8").splitlines()
    rows = {(r["dataset"], r["id"], r["ranker"]): r for r in map(json.loads, lines)}
    questions = load_questions(data_folder(data), "dev", source["datasets"], source["limit"])
    args = {**provenance(command), "seed": 0, "checkpoints": {}, "split": "dev",
            "fusions": list(fusions), "pull": _PULL}  # fmt: skip
    run = RunDirectory(out, args)
    summary, tests = [], []
    for name in fusions:
        whole = [q for q in questions if _is_scored(q, name, rows)]
        if len(whole) < 3:
            raise UserError(f"'{scores}' holds no scores of {name}")
        features = [_features(q, name, rows) for q in whole]
        equal: dict[str, list[float]] = {}
        learned: dict[str, list[float]] = {}
        for left_out, (question, mine) in enumerate(zip(whole, features, strict=True)):
            others = [
                (f, q.relevant)
                for n, (q, f) in enumerate(zip(whole, features, strict=True))
                if n != left_out
            ]
            weights = fit_weights(others)
            for found, values in ((mine.sum(1), equal), (mine @ weights, learned)):
                ndcg = measure(list(found), question.relevant)["ndcg"]
                values.setdefault(question.dataset, []).append(ndcg)
        final = fit_weights([(f, q.relevant) for q, f in zip(whole, features, strict=True)])
        told = {part: round(float(w), 3) for part, w in zip(parts_of(name), final, strict=True)}
        for agent, values in ((f"{name}, equal", equal), (f"{name}, learned", learned)):
            mean, error, low, high = interval(values)
            summary.append({
                "agent": agent, "dataset": AVERAGE, "n": len(whole), "ndcg": mean,
                "ndcg_se": error, "ndcg_low": low, "ndcg_high": high,
                "weights": told if values is learned else dict.fromkeys(told, 1.0),
            })  # fmt: skip
        about = {"a": f"{name}, equal", "b": f"{name}, learned", "metric": "ndcg"}
        tests.append({**about, "dataset": AVERAGE, **compare(equal, learned)})
    return run.summarise(summary, tests)


def fit_weights(examples: Sequence[tuple[Floats, Sequence[int]]], steps: int = 30) -> Floats:
    """Return weights that put relevant documents above others: damped Newton on a convex loss.

    ``examples`` hold z-scores ``(documents, rankers)`` and the relevant documents' indices.
    """
    width = examples[0][0].shape[1]
    pairs = []
    for features, relevant in examples:
        others = [i for i in range(len(features)) if i not in set(relevant)]
        gaps = features[list(relevant)][:, None] - features[others][None]
        if gaps.size:
            pairs.append(gaps.reshape(-1, width))
    weights = np.ones(width)
    pull = _PULL * len(pairs)
    for _ in range(steps):
        slope = pull * (weights - 1)
        curve = pull * np.eye(width)
        for gaps in pairs:
            wrong = 1 / (1 + np.exp(np.clip(gaps @ weights, -30, 30)))
            slope -= wrong @ gaps / len(gaps)
            curve += (gaps * (wrong * (1 - wrong))[:, None]).T @ gaps / len(gaps)
        step = np.linalg.solve(curve, slope)
        weights = weights - step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-9))
    return np.asarray(weights)


def _is_scored(question: Question, name: str, rows: Mapping[Any, Any]) -> bool:
    try:
        return all(row_of(part, question, rows) for part in parts_of(name))
    except KeyError:
        return False


def _features(question: Question, name: str, rows: Mapping[Any, Any]) -> Floats:
    columns = [
        z_scores(fuse_named(part, {part: row_of(part, question, rows)["scores"]}))
        for part in parts_of(name)
    ]
    return np.stack(columns, axis=1)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.rico_fusion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scores", required=True, help="folder of a reranking run of .dev")
    parser.add_argument("--out", required=True)
    parser.add_argument("--fusions", default=",".join(FUSIONS), help="comma-separated")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    command = ["python", "-m", "evals.rico_fusion", *words]
    with mistakes_in_one_line():
        fusions = [name for name in given.fusions.split(",") if name]
        summary = run_fusion(given.scores, given.out, fusions, command=command)
    for row in summary["rows"]:
        sys.stdout.write(f"{row['agent']:48} nDCG {row['ndcg']:.3f}  {row['weights']}\n")


if __name__ == "__main__":
    main()
