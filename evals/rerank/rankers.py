"""Reranking: who puts the documents that a multi-hop answer needs in front.

``scores.jsonl`` holds a row for each question and ranker; fusions (``bm25+minilm``) are made from
those rows and cost nothing. A run that was killed goes on; each document is read by the model once,
on any run (see ``stores.states.documents``).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stategate.evals.core.task import Attempt, Row, Sample, Solver, Summary, Task, run_task
from stategate.evals.rerank.data import (
    DATASETS,
    Question,
    Split,
    data_folder,
    data_hash,
    load_questions,
    retrieved,
)
from stategate.evals.rerank.summary import summarise
from stategate.nodes.build_context.rico import rankers
from stategate.nodes.build_context.rico.rankers import RANKERS, rank
from stategate.nodes.models.decoders.loading import DocumentMemory, shared_backend
from stategate.nodes.protocols import Embedder
from stategate.nodes.retrieval.corpus import Retrieval, TextIndex
from stategate.nodes.retrieval.ranking import bm25, cosine, weighted_parts
from stategate.stores.errors import UserError
from stategate.stores.runs import public_path
from stategate.stores.states.documents import Dtype

LEXICAL = ("bm25", "bm25_stem")
#: The corpora's own ways of retrieval, over a question's documents.
RETRIEVALS: tuple[Retrieval, ...] = ("rrf", "hybrid", "parent")
WARM = {"warm_bm25": "bm25_stem", "warm_minilm": "minilm"}
DEFAULT_RANKERS = (
    "bm25",
    "bm25_stem",
    "minilm",
    "bm25_stem+minilm",
    "single_gradient",
    "bm25_stem+minilm+single_gradient",
)


@dataclass(frozen=True)
class Settings:
    """What a run is: everything that its scores depend on."""

    split: Split = "dev"
    datasets: tuple[str, ...] = DATASETS
    limit: int | None = None
    rankers: tuple[str, ...] = DEFAULT_RANKERS
    pool: Literal["given", "bm25"] = "given"
    depth: int = 20
    model: str = "smollm2-135m"
    loss: Literal["content", "mean"] = "content"
    max_tokens: int = 300
    states: Dtype = "fp16"
    steps: int = 5
    learning_rate: float = 0.1
    seed: int = 0


def run_rerank(
    settings: Settings,
    out: str,
    data: str | None = None,
    states: str | None = None,
) -> dict[str, Any]:
    """Score every question with every ranker, and return the summary; resumes what ``out`` holds.

    Raises ``UserError`` for an unknown ranker or dataset.
    """
    check_rankers(settings.rankers)
    folder = data_folder(data)
    questions = load_questions(folder, settings.split, settings.datasets, settings.limit)
    if not questions:
        raise UserError("no questions: raise --limit")
    shown = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(settings).items()}
    args = {
        "data": {
            "name": "multihop",
            "sha256": data_hash(folder, settings.split, settings.datasets),
        },
        "checkpoints": {},
        **shown,
        "model": public_path(settings.model),
    }
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
    solvers = Scorer(settings, states)

    def solver(name: str) -> Solver:
        solvers.load(name)

        def solve(sample: Sample, attempt: Attempt) -> None:
            attempt.rows[0] |= {**solvers.score(name, sample.data), **_judged(sample.data)}

        return solve

    def scorer(rows: Sequence[Row]) -> Summary:
        return summarise(rows, questions, settings.rankers, settings.seed)

    base = base_rankers(settings.rankers)
    task = Task(base, lambda _: samples, solver, scorer, "scores", "ranking")
    return run_task(task, out, args)


def _judged(question: Question) -> Row:
    return {"relevant": list(question.relevant), "missed": question.missed}


def check_rankers(names: Iterable[str]) -> None:
    """Raise ``UserError`` unless every part of every name is a base ranker."""
    known = (*LEXICAL, "minilm", *RETRIEVALS, *(n for n in RANKERS if n != "warm_start"), *WARM)
    for name in names:
        for part in weighted_parts(name) or {name: 1.0}:
            if part not in known:
                shown = ", ".join(known)
                raise UserError(f"unknown ranker '{part}': known are {shown}; a+b for a fusion")


def base_rankers(names: Iterable[str]) -> list[str]:
    """Return the rankers that must be run, once each: fusions are made of them afterwards."""
    return list(dict.fromkeys(part for name in names for part in weighted_parts(name)))


class Scorer:
    """Base rankers; the model and the embedder are loaded when first needed."""

    def __init__(self, settings: Settings, folder: str | None = None) -> None:
        self._settings = settings
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
        prior = self.score(WARM[name], question)["scores"] if name in WARM else None
        method = "warm_start" if name in WARM else name
        ranking = rank(method, self._memory.backend, states, question.question, settings, prior)
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
        if name in ("minilm", *RETRIEVALS) or WARM.get(name) == "minilm":
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
