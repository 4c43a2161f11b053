"""Reranking: who puts the documents that a multi-hop answer needs in front.

``scores.jsonl`` holds a row for each question and ranker; fusions (``bm25+minilm``) are made from
those rows and cost nothing. A run that was killed goes on; each document is read by the model once,
on any run (see ``stores.states.documents``).
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stategate.evals.core.statistics import paired, ranking_metrics, with_interval
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.rerank.data import Question, data_folder, data_hash, load_questions, retrieved
from stategate.evals.settings import Rerank
from stategate.nodes.build_context.rico import rankers
from stategate.nodes.build_context.rico.rankers import RANKERS, rank
from stategate.nodes.models.decoders.loading import DocumentMemory, shared_backend
from stategate.nodes.protocols import Embedder
from stategate.nodes.retrieval.corpus import Retrieval, TextIndex
from stategate.nodes.retrieval.ranking import bm25, cosine, fuse_named, weighted_parts
from stategate.stores.errors import UserError

Rows = Mapping[tuple[str, str, str], Mapping[str, Any]]
#: Our names, and ir-measures' own.
MEASURES = {"ndcg": "nDCG@10", "map": "AP", "p2": "P@2", "r2": "R@2", "r5": "R@5"}
#: The dataset that a row about all of them names: the mean of their means.
AVERAGE = "average"
LEXICAL = ("bm25", "bm25_stem")
#: The corpora's own ways of retrieval, over a question's documents.
RETRIEVALS: tuple[Retrieval, ...] = ("rrf", "hybrid", "parent")


def run_rerank(settings: Rerank) -> dict[str, Any]:
    """Score every question with every ranker, and return the summary; resumes.

    Raises ``UserError`` for an unknown ranker or dataset.
    """
    if settings.threads:
        import torch

        torch.set_num_threads(settings.threads)
    check_rankers(settings.rankers)
    folder = data_folder(settings.data)
    questions = load_questions(folder, settings.split, settings.datasets, settings.limit)
    if not questions:
        raise UserError("no questions: raise --limit")
    digest = data_hash(folder, settings.split, settings.datasets)
    args = {**settings.args(), "data": {"name": "multihop", "sha256": digest}, "checkpoints": {}}
    if settings.pool == "bm25":
        questions = retrieved(questions, settings.depth)
    samples = [
        # A ranker that fails leaves the order of the candidates.
        Sample(
            {"dataset": q.dataset, "id": q.id},
            q,
            [{**_judged(q), "scores": [0.0] * len(q.documents), "calls": 0}],
        )
        for q in questions
    ]
    solvers = Scorer(settings)

    def solver(name: str) -> Solver:
        solvers.load(name)

        def solve(sample: Sample, attempt: Attempt) -> None:
            attempt.rows[0] |= {**solvers.score(name, sample.data), **_judged(sample.data)}

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        return summarise(rows, questions, settings.rankers, settings.seed)

    base = base_rankers(settings.rankers)
    task = Task(base, lambda _: samples, solver, scorer, "scores", "ranking")
    return run_task(task, settings.out, args)


def _judged(question: Question) -> Row:
    return {"relevant": list(question.relevant), "missed": question.missed}


def check_rankers(names: Iterable[str]) -> None:
    """Raise ``UserError`` unless every part of every name is a base ranker."""
    choices = (*LEXICAL, "minilm", *RETRIEVALS, *(n for n in RANKERS if n != "warm_start"))
    for name in names:
        for part in weighted_parts(name) or {name: 1.0}:
            if part not in choices:
                listing = ", ".join(choices)
                raise UserError(f"unknown ranker '{part}': known are {listing}; a+b for a fusion")


def base_rankers(names: Iterable[str]) -> list[str]:
    """Return the rankers that must be run, once each: fusions are made of them afterwards."""
    return list(dict.fromkeys(part for name in names for part in weighted_parts(name)))


class Scorer:
    """Base rankers; the model and the embedder are loaded when first needed."""

    def __init__(self, settings: Rerank) -> None:
        self._settings = settings
        folder = settings.states_folder
        self._memory = DocumentMemory(
            lambda: shared_backend(settings.model, settings.loss, settings.max_tokens),
            settings.states,
            None if folder is None else Path(folder),
        )
        self._embedder: Embedder | None = None

    def score(self, name: str, question: Question) -> dict[str, Any]:
        """Return one row's values: scores, seconds (without reading documents), calls, losses."""
        texts = [document.shown() for document in question.documents]
        started = time.perf_counter()
        if name in LEXICAL:
            stemmed = name == "bm25_stem"
            return _row(bm25(question.question, texts, stemmed=stemmed), started)
        if name == "minilm":
            self.embedder.embed(texts)  # documents' vectors are kept, like their states
            started = time.perf_counter()
            return _row(cosine(self.embedder, question.question, texts), started)
        if name in RETRIEVALS:
            return self._retrieved(name, question, texts)
        states = self._memory.states(question.documents)
        read = time.perf_counter() - started
        settings = rankers.Settings(self._settings.steps, self._settings.learning_rate)
        ranking = rank(name, self._memory.backend, states, question.question, settings)
        return {
            "scores": [float(f"{s:.7g}") for s in ranking.scores],
            "weights": [round(float(w), 5) for w in ranking.weights],
            "losses": [round(value, 5) for value in ranking.losses],
            "calls": ranking.calls,
            "seconds": round(ranking.seconds, 4),
            "read_seconds": round(read, 4),
        }

    def _retrieved(self, name: str, question: Question, texts: Sequence[str]) -> dict[str, Any]:
        index = TextIndex(
            [document.text for document in question.documents],
            self.embedder,
            [document.title for document in question.documents],
        )
        started = time.perf_counter()
        how = next(way for way in RETRIEVALS if way == name)
        ranked = dict(index.find(question.question, len(texts), how))
        lowest = min(ranked.values(), default=0.0) - 1.0
        return _row(np.array([ranked.get(i, lowest) for i in range(len(texts))]), started)

    def load(self, name: str) -> None:
        """Load what the ranker needs, so that a model that is not there is told at once."""
        if name in ("minilm", *RETRIEVALS):
            _ = self.embedder
        if name not in (*LEXICAL, "minilm", *RETRIEVALS):
            _ = self._memory.backend

    @property
    def embedder(self) -> Embedder:
        """MiniLM behind its cache."""
        if self._embedder is None:
            from stategate.nodes.models.embedders import MiniLM
            from stategate.nodes.resources import Resources

            self._embedder = MiniLM().build(Resources())
        return self._embedder


def _row(scores: "np.ndarray[Any, Any]", started: float) -> dict[str, Any]:
    seconds = round(time.perf_counter() - started, 4)
    return {"scores": [round(float(s), 6) for s in scores], "seconds": seconds, "calls": 0}


def summarise(
    scores: Sequence[Row], questions: Sequence[Question], rankers: Sequence[str], seed: int = 0
) -> Summary:
    """Return a row a ranker and dataset, and tests; the last of the datasets is their average.

    Tests compare every ranker with the first, and the last with every other. Where a ranker failed,
    its documents keep the order of the pool.
    """
    rows = {(row["dataset"], row["id"], row["agent"]): row for row in scores}
    places = {AVERAGE: list(range(len(questions)))}
    for number, question in enumerate(questions):
        places.setdefault(question.dataset, []).append(number)
    strata = [question.dataset for question in questions]
    values = {name: measured(name, questions, rows) for name in rankers}
    summary = []
    for name in rankers:
        cost = _cost(name, questions, rows)
        failed = [
            q
            for q in questions
            for p in weighted_parts(name)
            if rows[q.dataset, q.id, p].get("error")
        ]
        for dataset in (*dict.fromkeys(strata), AVERAGE):
            own = places[dataset]
            row: Row = {"agent": name, "dataset": dataset, "n": len(own)}
            for metric in MEASURES:
                figures = [values[name][metric][i] for i in own]
                row |= with_interval(metric, figures, seed, strata=[strata[i] for i in own])
            errors = sum(q.dataset == dataset or dataset == AVERAGE for q in failed)
            summary.append({**row, **cost, "errors": errors})
    pairs = [(rankers[0], name) for name in rankers[1:]]
    pairs += [(name, rankers[-1]) for name in rankers[1:-1]]
    tests = []
    for a, b in pairs:
        for dataset in (AVERAGE, *dict.fromkeys(strata)):
            own = places[dataset]
            one, two = ([values[name]["ndcg"][i] for i in own] for name in (a, b))
            test = vars(paired(one, two, seed, strata=[strata[i] for i in own]))
            tests.append({"a": a, "b": b, "metric": "ndcg", "dataset": dataset, **test})
    return summary, tests


def measured(name: str, questions: Sequence[Question], rows: Rows) -> dict[str, list[float]]:
    """Return metric → one value a question, for a ranker or a fusion of rankers."""
    metrics = []
    for question in questions:
        scored = {part: rows[question.dataset, question.id, part] for part in weighted_parts(name)}
        scores = fuse_named(name, {part: row["scores"] for part, row in scored.items()})
        first = next(iter(scored.values()))
        metrics.append(ranking_metrics(MEASURES, list(scores), first["relevant"], first["missed"]))
    return {metric: [one[metric] for one in metrics] for metric in MEASURES}


def _cost(name: str, questions: Sequence[Question], rows: Rows) -> dict[str, float]:
    """Return a ranker's mean seconds and model calls a question (a fusion's are its parts' sum)."""
    scored = [[rows[q.dataset, q.id, part] for part in weighted_parts(name)] for q in questions]
    return {
        cost: float(np.mean([sum(row[cost] for row in each) for each in scored]))
        for cost in ("seconds", "calls")
    }
