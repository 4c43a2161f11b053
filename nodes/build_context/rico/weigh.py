"""Weigh documents for a question: RICO's own score, and what it is fused with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from nodes.build_context.rico.rankers import Ranking, Settings, rank
from nodes.models.decoders.backend import Document
from nodes.models.decoders.states import DocumentMemory
from nodes.observe.qa import QaEnv
from nodes.protocols import Embedder
from nodes.retrieval.ranking import Scores, bm25, cosine, fuse, softmax
from stores.corpus.chunking import Chunking
from stores.errors import UserError
from stores.text import one_line

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


@dataclass(frozen=True)
class Weigher:
    """A ranker over ``memory``, and ``partners`` whose scores are added to its own, as z-scores."""

    memory: DocumentMemory
    embedder: Callable[[], Embedder]
    ranker: str = "single_gradient"
    partners: Sequence[Partner] = ("bm25_stem", "embedder")
    settings: Settings = field(default_factory=Settings)

    def weigh(self, question: str, documents: Sequence[Document], quiet: bool = True) -> Weighed:
        """Score ``documents`` for ``question``. Raises ``UserError`` for an empty question."""
        if not question.strip():
            raise UserError("the question is empty: ask something")
        if not documents:
            return Weighed(np.zeros(0), np.zeros(0))
        texts = [document.shown() for document in documents]
        partners: dict[str, Scores] = {}
        for partner in self.partners:
            if partner == "embedder":
                partners[partner] = cosine(self.embedder(), question, texts)
            else:
                partners[partner] = bm25(question, texts, stemmed=partner == "bm25_stem")
        prior = next(iter(partners.values()), None)
        states = self.memory.states(documents, quiet)
        ranking = rank(self.ranker, self.memory.backend, states, question, self.settings, prior)
        parts = {self.ranker: ranking.scores, **partners}
        if not partners:
            return Weighed(ranking.scores, ranking.weights, parts, ranking)
        fused = fuse(list(parts.values())) / len(parts)
        return Weighed(fused, softmax(fused), parts, ranking)


def documents_of(corpus: str) -> list[Document]:
    """Return the passages of a corpus: ``sample``, an ingested name, or a folder or file of documents.

    They are cut and written as the ``rico`` context reads them, so that their states are used again.
    Raises ``UserError`` where there is none of that name, or nothing in it can be read.
    """
    world = QaEnv(corpus=corpus)
    passages = world.open().passages(Chunking.parse(world.chunking))
    return [Document(one_line(passage.title), one_line(passage.text)) for passage in passages]
