"""Reranking: who puts the documents that a multi-hop answer needs in front.

Questions are those of HotpotQA, 2WikiMultihopQA and MuSiQue: files ``NAME.dev.jsonl.gz`` (to tune on)
and ``NAME.test.jsonl.gz`` (to report), a row a question: ``{id, question, answer, documents: [{title,
text}], relevant: [indices]}``. ``scores.jsonl`` holds a row for each question and ranker; fusions
(``bm25+minilm``) are made from those rows and cost nothing. A run that was killed goes on; each
document is read by the model once, on any run (see ``stores.document_states``).
"""

import gzip
import hashlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stategate.evals.core.statistics import paired, ranking_metrics, with_interval
from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.settings import Rerank
from stategate.nodes.build_context.rico import GRADIENT, rank
from stategate.nodes.models.decoders.backend import Document
from stategate.nodes.models.decoders.loading import DocumentMemory, shared_backend
from stategate.nodes.models.embedders import MiniLM
from stategate.nodes.protocols import Embedder
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.ranking import bm25, cosine, fuse_named, weighted_parts
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json

Rows = Mapping[tuple[str, str, str], Mapping[str, Any]]
#: Our names, and ir-measures' own.
MEASURES = {"ndcg": "nDCG@10", "map": "AP", "p2": "P@2", "r2": "R@2", "r5": "R@5"}
#: The dataset that a row about all of them names: the mean of their means.
AVERAGE = "average"
LEXICAL = ("bm25", "bm25_stem")
DATASETS = ("hotpotqa", "2wikimultihopqa", "musique")
Split = Literal["dev", "test"]


@dataclass(frozen=True)
class Question:
    """One question, its candidates, and which of them the answer needs (indices)."""

    dataset: str
    id: str
    question: str
    answer: str
    documents: tuple[Document, ...]
    relevant: tuple[int, ...]


def data_folder(folder_name: str | None = None) -> Path:
    """Return the folder of the files: ``folder_name``, ``$STATEGATE_DATA``, or ``../shared/data``.

    Raises ``UserError`` if there is none.
    """
    root = Path(folder_name or os.environ.get("STATEGATE_DATA") or "../shared/data").expanduser()
    for folder in (root / "qa" / "multihop", root):
        if list(folder.glob("*.jsonl.gz")):
            return folder
    raise UserError(
        f"no multi-hop questions in '{folder_name or root.name}': give their folder with --data, "
        "files named hotpotqa.dev.jsonl.gz and so on"
    )


def load_questions(
    folder: Path, split: Split, datasets: Sequence[str] = DATASETS, limit: int | None = None
) -> list[Question]:
    """Return questions, a dataset at a time in turn, so that a part of a run is balanced.

    ``limit`` keeps the first so many of each dataset. Raises ``UserError`` for a bad file.
    """
    columns = []
    for name in datasets:
        path = folder / f"{name}.{split}.jsonl.gz"
        if not path.is_file():
            raise UserError(f"no file {path.name} in '{folder.name}': known are {DATASETS}")
        with user_error_context(f"{path.name} is damaged", "fetch it again"):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                rows = [parse_json(line) for line in lines][:limit]
            columns.append(
                [
                    Question(
                        name,
                        str(row["id"]),
                        str(row["question"]),
                        str(row["answer"]),
                        tuple(Document(str(d["title"]), str(d["text"])) for d in row["documents"]),
                        tuple(int(i) for i in row["relevant"]),
                    )
                    for row in rows
                ]
            )
    return [q for group in zip_longest(*columns) for q in group if q is not None]


def data_hash(folder: Path, split: Split, datasets: Sequence[str]) -> str:
    """Return the SHA-256 over the files' bytes, in the order of ``datasets``."""
    total = hashlib.sha256()
    for name in datasets:
        total.update((folder / f"{name}.{split}.jsonl.gz").read_bytes())
    return total.hexdigest()


def run_rerank(settings: Rerank) -> dict[str, Any]:
    """Score every question with every ranker, and return the summary; resumes.

    Raises ``UserError`` for an unknown ranker or dataset.
    """
    check_rankers(settings.rankers)
    folder = data_folder(settings.data)
    questions = load_questions(folder, settings.split, settings.datasets, settings.limit)
    if not questions:
        raise UserError("no questions: raise --limit")
    digest = data_hash(folder, settings.split, settings.datasets)
    args = {**settings.args(), "data": {"name": "multihop", "sha256": digest}, "checkpoints": {}}
    samples = [
        # A ranker that fails leaves the order of the candidates.
        Sample(
            {"dataset": q.dataset, "id": q.id},
            q,
            [{"relevant": list(q.relevant), "scores": [0.0] * len(q.documents), "calls": 0}],
        )
        for q in questions
    ]
    solvers = Scorer(settings)

    def solver(name: str) -> Solver:
        solvers.load(name)

        def solve(sample: Sample, attempt: Attempt) -> None:
            attempt.rows[0] |= solvers.score(name, sample.data)
            attempt.rows[0]["relevant"] = list(sample.data.relevant)

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        return summarise(rows, questions, settings.rankers, settings.seed)

    # Fusions are made afterwards of the rankers that they name.
    base = list(dict.fromkeys(p for name in settings.rankers for p in weighted_parts(name)))
    task = Task(base, lambda _: samples, solver, scorer, "scores", "ranking")
    return run_task(task, settings.out, args)


def check_rankers(names: Iterable[str]) -> None:
    """Raise ``UserError`` unless every part of every name is a base ranker."""
    choices = (*LEXICAL, "minilm", GRADIENT)
    for name in names:
        for part in weighted_parts(name) or {name: 1.0}:
            if part not in choices:
                listing = ", ".join(choices)
                raise UserError(f"unknown ranker '{part}': known are {listing}; a+b for a fusion")


class Scorer:
    """Base rankers; the model and the embedder are loaded when first needed."""

    def __init__(self, settings: Rerank) -> None:
        self._settings = settings
        self._memory = DocumentMemory(
            lambda: shared_backend(settings.model, settings.loss, settings.max_tokens)
        )

    def score(self, name: str, question: Question) -> dict[str, Any]:
        """Return one row's values: scores, seconds (without reading documents), calls."""
        texts = [document.as_text() for document in question.documents]
        started = time.perf_counter()
        if name in LEXICAL:
            stemmed = name == "bm25_stem"
            return _row(bm25(question.question, texts, stemmed=stemmed), started)
        if name == "minilm":
            self.embedder.embed(texts)  # documents' vectors are kept, like their states
            started = time.perf_counter()
            return _row(cosine(self.embedder, question.question, texts), started)
        states = self._memory.states(question.documents)
        read = time.perf_counter() - started
        started = time.perf_counter()
        ranking = rank(self._memory.backend, states, question.question)
        return {
            "scores": [float(f"{s:.7g}") for s in ranking.scores],
            "weights": [round(float(w), 5) for w in ranking.weights],
            "calls": ranking.calls,
            "seconds": round(time.perf_counter() - started, 4),
            "read_seconds": round(read, 4),
        }

    def load(self, name: str) -> None:
        """Load what the ranker needs, so that a model that is not there is told at once."""
        if name not in LEXICAL:
            _ = self.embedder if name == "minilm" else self._memory.backend

    @cached_property
    def embedder(self) -> Embedder:
        """MiniLM behind its cache."""
        return MiniLM().build(Resources())


def _row(scores: NDArray[np.floating], started: float) -> dict[str, Any]:
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
        metrics.append(ranking_metrics(MEASURES, list(scores), first["relevant"]))
    return {metric: [one[metric] for one in metrics] for metric in MEASURES}


def _cost(name: str, questions: Sequence[Question], rows: Rows) -> dict[str, float]:
    """Return a ranker's mean seconds and model calls a question (a fusion's are its parts' sum)."""
    scored = [[rows[q.dataset, q.id, part] for part in weighted_parts(name)] for q in questions]
    return {
        cost: float(np.mean([sum(row[cost] for row in each) for each in scored]))
        for cost in ("seconds", "calls")
    }
