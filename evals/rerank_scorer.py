"""One question's candidates, scored by every ranker that is not made of others."""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evals.multihop import DATASETS, Question, Split
from evals.rerank_pool import Pool
from nodes.build_context.rico.backend import Backend, Query, State
from nodes.build_context.rico.lexical import bm25, cosine
from nodes.build_context.rico.rankers import Options, Ranking, rank
from nodes.protocols import Embedder
from stores.states.documents import DocumentStates, Dtype

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
            from nodes.build_context.rico.index import open_states

            self._store = open_states(self.backend, self._settings.states, self._folder)
        return self._store

    def _states(self, pool: Pool) -> tuple[list[State], float]:
        from nodes.build_context.rico.index import build_states, read_states

        started = time.perf_counter()
        build_states(self.backend, self.store, pool.documents, quiet=True)
        return read_states(self.store, pool.documents), time.perf_counter() - started


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
