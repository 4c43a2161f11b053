"""Reranking: who puts the documents that a multi-hop answer needs in front.

    stategate eval rerank --split dev --limit 20 --out runs/rerank-dev
    stategate eval rerank --split test --rankers bm25,minilm,single_gradient --out runs/rerank-test

``scores.jsonl`` holds a row for each question and ranker; fusions (``bm25+minilm``) are made from
those rows and cost nothing. A run that was killed goes on; each document is read by the model once,
on any run (see ``stores.document_states``).
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from evals.multihop import DATASETS, Question, Split, data_folder, data_hash, load_questions
from evals.rerank_pool import Pool, given_pool, retrieved_pool
from evals.rerank_summary import DERIVED, source_of, summarise
from evals.run_directory import RunDirectory, provenance, shown_path
from nodes.build_context.rico.backend import Backend, Query, State
from nodes.build_context.rico.fusion import parts_of
from nodes.build_context.rico.lexical import bm25, cosine
from nodes.build_context.rico.rankers import RANKERS, Options, Ranking, rank
from nodes.protocols import Embedder
from stores.document_states import DocumentStates
from stores.errors import UserError
from stores.state_packing import Dtype

LEXICAL = ("bm25", "bm25_stem")
#: Rankers that see the answer: what the gradient could do if the question said everything.
ORACLES = {"oracle": "single_gradient", "oracle_loss": "loss"}
STEPPED = ("multistep", "warm_bm25", "warm_minilm")
WARM = {"warm_bm25": "bm25_stem", "warm_minilm": "minilm"}
DEFAULT_RANKERS = (
    "bm25", "bm25_stem", "minilm", "bm25_stem+minilm", "single_gradient",
    "bm25_stem+minilm+single_gradient",
)  # fmt: skip


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
    layers: tuple[int, ...] | None = None
    seed: int = 0


class Scorer:
    """Base rankers over one pool; the model and the embedder are loaded when first needed."""

    def __init__(self, settings: Settings, folder: str | None = None) -> None:
        self._settings = settings
        self._folder = folder
        self._backend: Backend | None = None
        self._store: DocumentStates | None = None
        self._embedder: Embedder | None = None

    def score(self, name: str, question: Question, pool: Pool) -> dict[str, Any]:
        """Return one row's values: scores, seconds (without reading documents), calls, losses."""
        texts = [document.shown() for document in pool.documents]
        started = time.perf_counter()
        if name in LEXICAL:
            stemmed = name == "bm25_stem"
            return _row(bm25(question.question, texts, stemmed=stemmed), started)
        if name == "minilm":
            self.embedder.embed(texts)  # documents' vectors are kept, like their states
            started = time.perf_counter()
            return _row(cosine(self.embedder, question.question, texts), started)
        states, read = self._states(pool)
        options = Options(
            self._settings.steps,
            self._settings.learning_rate,
            self._settings.layers,
            "answer" if name in ORACLES else "question",
        )
        prior = None
        if name in WARM:
            prior = self.score(WARM[name], question, pool)["scores"]
        query = Query(question.question, question.answer)
        method = ORACLES.get(name, "warm_start" if name in WARM else name)
        found = rank(method, self.backend, states, query, options, prior)
        return {**_ranked(found), "read_seconds": round(read, 4)}

    @property
    def backend(self) -> Backend:
        """The language model."""
        if self._backend is None:
            from nodes.build_context.rico.loading import load_backend

            self._backend = load_backend(
                self._settings.model,
                loss=self._settings.loss,
                max_tokens=self._settings.max_tokens,
            )
        return self._backend

    @property
    def embedder(self) -> Embedder:
        """MiniLM behind its cache."""
        if self._embedder is None:
            from nodes.models.embedders import MiniLM
            from nodes.resources import Resources

            self._embedder = MiniLM().build(Resources())
        return self._embedder

    @property
    def store(self) -> DocumentStates:
        """The states of documents that this model has read."""
        if self._store is None:
            from nodes.build_context.rico.index import default_folder

            kept = self._settings.states
            folder = self._folder or default_folder(self.backend, kept)
            self._store = DocumentStates(folder, self.backend.fingerprint, kept)
        return self._store

    def _states(self, pool: Pool) -> tuple[list[State], float]:
        from nodes.build_context.rico.index import build_states, read_states

        started = time.perf_counter()
        build_states(self.backend, self.store, pool.documents, quiet=True)
        return read_states(self.store, pool.documents), time.perf_counter() - started


def run_rerank(
    settings: Settings,
    out: str,
    data: str | None = None,
    states: str | None = None,
    command: Sequence[str] = ("run_rerank",),
) -> dict[str, Any]:
    """Score every question with every ranker, and return the summary; resumes what ``out`` holds.

    Raises ``UserError`` for an unknown ranker or dataset.
    """
    from tqdm import tqdm

    check_rankers(settings.rankers, settings.steps)
    folder = data_folder(data)
    questions = load_questions(folder, settings.split, settings.datasets, settings.limit)
    if not questions:
        raise UserError("no questions: raise --limit")
    args = {
        **provenance(command),
        "data": {
            "name": "multihop",
            "sha256": data_hash(folder, settings.split, settings.datasets),
        },
        "seed": settings.seed,
        "checkpoints": {},
        **_shown(settings),
    }
    run = RunDirectory(out, args)
    done = {(row["dataset"], row["id"], row["ranker"]) for row in run.rows("scores")}
    if done:
        run.note_resumption(args)
    base = base_rankers(settings.rankers)
    pools = _pools(settings, questions)
    scorer = Scorer(settings, states)
    with tqdm(
        total=len(questions) * len(base), initial=len(done), unit="ranking", disable=None
    ) as bar:
        for question, pool in zip(questions, pools, strict=True):
            for name in base:
                if (question.dataset, question.id, name) in done:
                    continue
                found = scorer.score(name, question, pool)
                run.append("scores", _with_question(question, pool, name, found))
                bar.update()
    return summarise(run, questions, settings.rankers, settings.seed)


def check_rankers(names: Iterable[str], steps: int = 5) -> None:
    """Raise ``UserError`` unless every part of every name is a base ranker, or a step of one."""
    known = (
        *LEXICAL,
        "minilm",
        *(n for n in RANKERS if n != "warm_start"),
        *WARM,
        *ORACLES,
        *DERIVED,
    )
    for name in names:
        for part in parts_of(name) or [name]:
            base, at, step = part.partition("@")
            is_step = base in STEPPED and step.isdigit() and 1 <= int(step) <= steps
            if base not in known or (at and not is_step):
                raise UserError(
                    f"unknown ranker '{part}': known are {', '.join(known)}; a+b for a "
                    f"fusion, {STEPPED[0]}@1 to @{steps} for a step"
                )


def base_rankers(names: Iterable[str]) -> list[str]:
    """Return the rankers that must be run, once each: fusions are made of them afterwards."""
    parts = (part for name in names for part in parts_of(name))
    return list(dict.fromkeys(source_of(part) for part in parts))


def _pools(settings: Settings, questions: Sequence[Question]) -> list[Pool]:
    if settings.pool == "given":
        return [given_pool(question) for question in questions]
    return retrieved_pool(questions, settings.depth)


def _with_question(
    question: Question, pool: Pool, name: str, found: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "dataset": question.dataset,
        "id": question.id,
        "ranker": name,
        "relevant": list(pool.relevant),
        "missed": pool.missed,
        **found,
    }


def _row(scores: "np.ndarray[Any, Any]", started: float) -> dict[str, Any]:
    seconds = time.perf_counter() - started
    return {
        "scores": [round(float(s), 6) for s in scores],
        "seconds": round(seconds, 4),
        "calls": 0,
    }


def _ranked(found: Ranking) -> dict[str, Any]:
    row: dict[str, Any] = {
        "scores": [float(f"{s:.7g}") for s in found.scores],
        "weights": [round(float(w), 5) for w in found.weights],
        "losses": [round(value, 5) for value in found.losses],
        "calls": found.calls,
        "seconds": round(found.seconds, 4),
    }
    if found.path is not None:
        row["path"] = [[float(f"{v:.5g}") for v in step] for step in found.path]
    if found.by_layer is not None:
        row["by_layer"] = [[float(f"{v:.4g}") for v in layer] for layer in found.by_layer]
    return row


def _shown(settings: Settings) -> dict[str, Any]:
    values = asdict(settings)
    values["model"] = shown_path(settings.model)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}
