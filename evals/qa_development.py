"""Retrieval on development questions: what was looked at before a method was chosen.

    python -m evals.qa_development --data FOLDER --out runs/qa-development

The questions (``phenomena_dev.yaml``) are about other facts of the reference articles in FOLDER than
its own questions, which are read here for one purpose only: a development question whose cosine with
one of them is .80 or more is left out.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from envs.qa.questions import Question, load_questions
from evals.qa_data import load_set, relevant
from evals.run_directory import RunDirectory, provenance, shown_path
from evals.statistics import mean, paired, standard_error
from nodes.models.embedders import MiniLM
from nodes.observe.qa import QaEnv
from nodes.resources import Resources
from nodes.retrieval.corpus import CorpusIndex, Retrieval
from stores.errors import mistakes_in_one_line
from trainers.episodes.trajectories import file_hash

_WAYS: tuple[Retrieval, ...] = ("hybrid", "dense", "rrf", "parent", "likelihood")
_NEAR, _DEPTH = 0.8, 10


def run_development(
    data: str, out: str, ways: Sequence[Retrieval] = _WAYS, command: Sequence[str] = ("run",)
) -> dict[str, Any]:
    """Measure each way of retrieval; resumes by question. Returns the summary."""
    source = Path(str(files("evals") / "phenomena_dev.yaml"))
    chosen, resources = load_set(data), Resources(None, MiniLM())
    questions = _apart(
        load_questions(str(source)), next(iter(chosen.questions.values())), resources
    )
    args = {
        **provenance(command), "seed": 0, "ways": list(ways), "questions": len(questions),
        "data": {"name": chosen.name, "sha256": chosen.sha256, "development": file_hash(source)},
    }  # fmt: skip
    run = RunDirectory(out, args)
    index = QaEnv(corpus=chosen.corpus).index(resources)
    done = {(row["agent"], row["number"]) for row in run.rows("questions")}
    if done:
        run.note_resumption(args)
    for way in ways:
        for number, question in enumerate(questions):
            if (way, number) not in done:
                row = {"agent": way, "number": number, "question": question.question}
                run.append("questions", {**row, **_measured(index, question, way)})
    rows = run.rows("questions")
    by_way = {way: [row for row in rows if row["agent"] == way] for way in ways}
    table = [
        {"agent": way, "n": len(own), **_means(own, "mrr", "hit3", "ndcg", "seconds")}
        for way, own in by_way.items()
    ]
    first = by_way[ways[0]]
    tests = []
    for way in ways[1:]:
        for metric in ("mrr", "ndcg"):
            found = paired(_column(first, metric), _column(by_way[way], metric))
            tests.append({"a": ways[0], "b": way, "metric": metric, **vars(found)})
    return run.summarise(table, tests)


def retrieval_metrics(found: Sequence[int], gold: set[int]) -> dict[str, float]:
    """Return Hit@3, MRR and nDCG@10 of the places ``found``, best first."""
    hits = [place in gold for place in found[:_DEPTH]]
    first = hits.index(True) + 1 if any(hits) else 0
    gains = sum(1 / np.log2(i + 2) for i, hit in enumerate(hits) if hit)
    best = sum(1 / np.log2(i + 2) for i in range(min(len(gold), _DEPTH)))
    return {
        "first": first, "hit3": float(0 < first <= 3), "mrr": 1 / first if first else 0.0,
        "ndcg": gains / best if best else 0.0,
    }  # fmt: skip


def _measured(index: CorpusIndex, question: Question, way: Retrieval) -> dict[str, float]:
    gold = relevant(question, index.passages)
    started = time.perf_counter()
    found = [place for place, _ in index.find(question.question, _DEPTH, way)]
    took = time.perf_counter() - started
    return {**retrieval_metrics(found, gold), "seconds": round(took, 4)}


def _apart(
    questions: Sequence[Question], kept_for_test: Sequence[Question], resources: Resources
) -> list[Question]:
    rows, tests = (
        resources.embedder.embed([q.question for q in part]) for part in (questions, kept_for_test)
    )
    near = (rows @ tests.T).max(axis=1)
    return [q for q, score in zip(questions, near, strict=True) if score < _NEAR]


def _column(rows: Sequence[dict[str, Any]], metric: str) -> list[float]:
    return [float(row[metric]) for row in rows]


def _means(rows: Sequence[dict[str, Any]], *metrics: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in metrics:
        values = _column(rows, metric)
        found |= {metric: mean(values), f"{metric}_se": standard_error(values)}
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "evals.qa_development",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True, help="the folder of the reference articles")
    parser.add_argument("--ways", default=",".join(_WAYS), help="comma-separated retrievals")
    parser.add_argument("--out", required=True, help="a new run directory")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    with mistakes_in_one_line():
        command = ["python", "-m", "evals.qa_development", *(shown_path(word) for word in words)]
        run_development(given.data, given.out, given.ways.split(","), command)


if __name__ == "__main__":
    main()
