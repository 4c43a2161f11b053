"""Weigh documents for a question: RICO's own score, and what it is fused with."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nodes.build_context.rico.backend import Backend, Document, Query, State
from nodes.build_context.rico.fusion import fuse, softmax
from nodes.build_context.rico.lexical import bm25, cosine
from nodes.build_context.rico.prompts import Loss
from nodes.build_context.rico.rankers import Options, Ranking, rank
from nodes.protocols import Embedder
from stores.errors import UserError
from stores.states.documents import DocumentStates, Dtype

Scores = NDArray[np.float64]
Partner = Literal["bm25", "bm25_stem", "embedder"]


@dataclass(frozen=True)
class Weighed:
    """What each document got. ``weights`` sum to one; ``parts`` are each ranker's own scores."""

    scores: Scores
    weights: Scores
    parts: Mapping[str, Scores] = field(default_factory=dict)
    ranking: Ranking | None = None

    def order(self) -> list[int]:
        """Return the documents' indices, most relevant first; ties keep their order."""
        return [int(i) for i in np.argsort(-self.scores, kind="stable")]


class Weigher:
    """One backend with its index of document states; the model is loaded at the first question.

    ``fuse_with`` names the scores that are added to RICO's own, as z-scores.
    """

    def __init__(
        self,
        backend: Callable[[], Backend],
        embedder: Callable[[], Embedder],
        ranker: str = "single_gradient",
        fuse_with: Sequence[Partner] = ("bm25_stem", "embedder"),
        options: Options | None = None,
        states: Dtype = "fp16",
        folder: Path | None = None,
    ) -> None:
        self._backend = backend
        self._embedder = embedder
        self._ranker = ranker
        self._partners = tuple(fuse_with)
        self._options = options or Options()
        self._dtype: Dtype = states
        self._folder = folder
        self._store: DocumentStates | None = None
        self._lock = threading.RLock()

    @property
    def backend(self) -> Backend:
        """The language model."""
        return self._backend()

    def states(self, documents: Sequence[Document], quiet: bool = True) -> list[State]:
        """Return the documents' states, reading those that were never read before."""
        from nodes.build_context.rico.index import build_states, open_states, read_states

        backend = self._backend()
        with self._lock:
            if self._store is None:
                self._store = open_states(backend, self._dtype, self._folder)
            build_states(backend, self._store, documents, quiet)
            return read_states(self._store, documents)

    def weigh(self, question: str, documents: Sequence[Document], quiet: bool = True) -> Weighed:
        """Score ``documents`` for ``question``. Raises ``UserError`` for an empty question."""
        if not question.strip():
            raise UserError("the question is empty: ask something")
        if not documents:
            return Weighed(np.zeros(0), np.zeros(0))
        texts = [document.shown() for document in documents]
        parts: dict[str, Scores] = {}
        for partner in self._partners:
            if partner == "embedder":
                parts[partner] = cosine(self._embedder(), question, texts)
            else:
                parts[partner] = bm25(question, texts, stemmed=partner == "bm25_stem")
        prior = next(iter(parts.values()), None)
        states = self.states(documents, quiet)
        found = rank(self._ranker, self._backend(), states, Query(question), self._options, prior)
        parts = {self._ranker: found.scores, **parts}
        if len(parts) == 1:
            return Weighed(found.scores, found.weights, parts, found)
        fused = fuse(list(parts.values())) / len(parts)
        return Weighed(fused, softmax(fused), parts, found)


def shared_backend(
    model: str,
    loss: Loss,
    max_tokens: int,
    layers: tuple[int, ...] | None = None,
    projection: int | None = None,
) -> Backend:
    """Return this process's backend for ``model``: one copy of the weights, whoever asks."""
    return _shared(model, loss, max_tokens, layers, projection)


@lru_cache(maxsize=4)
def _shared(
    model: str,
    loss: Loss,
    max_tokens: int,
    layers: tuple[int, ...] | None,
    projection: int | None,
) -> Backend:
    from nodes.build_context.rico.loading import load_backend

    return load_backend(
        model, loss=loss, max_tokens=max_tokens, layers=layers, projection=projection
    )
