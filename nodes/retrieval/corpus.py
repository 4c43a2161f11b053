"""A corpus as a source of candidates: dense and hybrid retrieval over its passages.

Passages are embedded and indexed with their document's title in front, since a passage from the
middle of an article often does not say what it is about. Hybrid retrieval adds BM25 (exact names and
numbers) and, for the best candidates, the nearest single sentence (one fact in a long passage).
"""

import hashlib
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from filelock import FileLock

from stategate.envs.protocols import ANSWER, Chunk
from stategate.envs.qa.world import HOW_TO_ANSWER
from stategate.nodes.protocols import Embedder, Vector
from stategate.nodes.retrieval.ranking import fuse_places
from stategate.stores.corpus.chunking import Chunking, Passage
from stategate.stores.corpus.corpus import Corpus, prepare, titled
from stategate.stores.corpus.lexical import Lexical
from stategate.stores.corpus.lexical import words as stems
from stategate.stores.corpus.vectors import Vectors
from stategate.stores.errors import warn_once
from stategate.stores.http import is_web
from stategate.stores.progress import Progress

Retrieval = Literal["hybrid", "dense", "rrf"]
#: Candidates of a ranking that go into the fusion, and those whose sentences are embedded.
POOL, NEAR = 100, 24
#: Standard deviations that a passage gains where the question holds its document's whole title.
#: Chosen on 54 multi-hop development questions: nDCG@10 .851 without, .858 with 2, .861 with 4.
NAMED = 2.0
#: From LAZY_FROM passages on, a folder that was not ingested embeds only the LAZY_POOL that BM25 finds
#: for a question: at some 20 a second all would take minutes before the first answer.
LAZY_FROM, LAZY_POOL = 1500, 40
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class TextIndex:
    """Search over whole texts in memory: each text is one passage."""

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        self.embedder = embedder
        self.passages = [
            Passage(str(i), str(i), "", 0, len(text), text) for i, text in enumerate(texts)
        ]
        self._lexical = Lexical(texts)

    @cached_property
    def _rows(self) -> Vector:
        return self.embedder.embed([passage.text for passage in self.passages])

    def nearest(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """Return (position, cosine) of the ``k`` passages nearest to ``vector``, best first."""
        scores = self._rows @ vector
        order = np.argsort(-scores, kind="stable")[:k]
        return [(int(i), float(scores[i])) for i in order]

    def find(self, query: str, k: int, how: Retrieval = "hybrid") -> list[tuple[int, float]]:
        """Return (position, score) of the ``k`` best passages for ``query``, best first.

        ``dense`` is cosine alone; ``hybrid`` adds the standardised scores of cosine, BM25 and the
        nearest sentence, and :data:`NAMED` where the question names the document's whole title.
        """
        if not query.strip() or not self.passages:
            return []
        if how == "rrf":
            warn_once("the ranking 'rrf' is gone: 'hybrid' ranks in its place")
        vector = self.embedder.embed([query])[0]
        if how == "dense":
            return self.nearest(vector, k)
        pool = max(POOL, k)
        dense = self._dense(query, vector, pool)
        words = dict(self._lexical.search(query, pool))
        first = fuse_places((dense, words))
        nearest = [position for position, _ in first[: max(NEAR, k)]]
        parts = (dense, words, self._sentences(nearest, vector))
        fused = fuse_places([{p: part[p] for p in nearest if p in part} for part in parts])
        query_stems, total = set(stems(query)), []
        for position, score in fused:
            title = set(stems(self.passages[position].title))
            is_named = bool(title) and title <= query_stems
            total.append((position, score + NAMED * is_named))
        return sorted(total, key=lambda item: -item[1])[:k]

    def _dense(self, query: str, vector: Vector, k: int) -> dict[int, float]:
        """Return the cosines of the passages that may matter for ``query``, by position."""
        return dict(self.nearest(vector, k))

    def _sentences(self, positions: Sequence[int], vector: Vector) -> dict[int, float]:
        """Return the cosine of each passage's nearest sentence (read with the title in front)."""
        texts: list[str] = []
        owners: list[int] = []
        for position in positions:
            parts = sentences_of(self.passages[position].text)
            title = self.passages[position].title
            texts += [f"{title}. {part}" if title else part for part in parts]
            owners += [position] * len(parts)
        if not texts:
            return {}
        scores = self.embedder.embed(texts) @ vector
        best: dict[int, float] = {}
        for owner, score in zip(owners, scores, strict=True):
            best[owner] = max(best.get(owner, -1.0), float(score))
        return best


class CorpusIndex(TextIndex):
    """The passages of one corpus under one chunking and one embedder, ready to be searched."""

    def __init__(
        self,
        corpus: Corpus,
        chunking: Chunking,
        embedder: Embedder,
        where: str | None = None,
        *,
        lazy_from: int | None = None,
    ) -> None:
        """Open the index; :meth:`sync` fills it.

        With more than ``lazy_from`` passages that are not embedded, words choose what is embedded
        (each passage once), until something needs them all.
        """
        where = where or str(corpus.folder / "chroma")
        super().__init__((), embedder)
        self.corpus = corpus
        self.chunking = chunking
        slug = re.sub(r"[^a-zA-Z0-9]+", "-", embedder.name).strip("-")[:60]
        digest = hashlib.sha256(corpus.identity.encode("utf-8", "surrogatepass")).hexdigest()
        tag = digest[:8] if is_web(where) else ""
        name = "-".join(part for part in (corpus.title, tag, str(chunking), slug) if part)
        self._vectors = Vectors(where, name)
        self._lock = threading.RLock()
        self._lazy_from = lazy_from
        self._is_pending = False  # passages are left to be embedded
        self._fingerprint = ""
        self._position: dict[str, int] = {}

    def sync(self) -> None:
        """Update the index to the corpus's documents.

        A killed sync resumes where it stopped: ids derive from content.
        """
        with self._lock:
            fingerprint = self.corpus.fingerprint()
            if fingerprint == self._fingerprint:
                return
            with FileLock(str(self.corpus.folder / "index.lock")):
                self.passages, self._lexical = prepare(self.corpus, self.chunking)
                self._position = {passage.id: i for i, passage in enumerate(self.passages)}
                self._fill(self._lazy_from)
            self._fingerprint = fingerprint

    def _fill(self, lazy_from: int | None = None) -> None:
        """Make the collection hold the passages; leave more than ``lazy_from`` new ones for later."""
        ids = self._vectors.ids()
        new = [passage for passage in self.passages if passage.id not in ids]
        self._is_pending = lazy_from is not None and len(new) > lazy_from
        if self._is_pending:
            return
        with Progress(what="index", total=len(new), unit="passage") as bar:
            for part in (new[start : start + 256] for start in range(0, len(new), 256)):
                rows = self.embedder.embed([titled(passage) for passage in part])
                self._vectors.put([passage.id for passage in part], rows)
                bar.update(len(part))
        self._vectors.remove(sorted(ids - self._position.keys()))

    def nearest(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """Return the same from the vectors on disk, after embedding the passages left for later."""
        with self._lock:
            if self._is_pending:
                with FileLock(str(self.corpus.folder / "index.lock")):
                    self._fill()
        hits = self._vectors.search(vector, k)
        return [(self._position[id_], score) for id_, score in hits if id_ in self._position]

    def _dense(self, query: str, vector: Vector, k: int) -> dict[int, float]:
        if not self._is_pending:
            return super()._dense(query, vector, k)
        positions = [position for position, _ in self._lexical.search(query, LAZY_POOL)]
        rows = self.embedder.embed([titled(self.passages[position]) for position in positions])
        return dict(zip(positions, map(float, rows @ vector), strict=True))


def sentences_of(text: str) -> list[str]:
    """Split at sentence ends and line breaks; fragments of one or two words are left out."""
    parts = [part.strip() for part in _SENTENCE.split(text)]
    return [part for part in parts if len(part.split()) > 2] or ([text] if text.strip() else [])


_ASK = Chunk("ask", "ask", "", (ANSWER,), role="pinned", fragments=HOW_TO_ANSWER)


class CorpusSource:
    """The candidates for one question: an ``ask`` chunk with the answer affordance, all passages."""

    def __init__(self, index: CorpusIndex, is_open: bool = True) -> None:
        self._index = index
        self._ask = (_ASK,) if is_open else ()

    def all(self) -> Sequence[Chunk]:
        """Return the ask chunk and every passage, in document order."""
        return (*self._ask, *(self._chunk(i) for i in range(len(self._index.passages))))

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` passages nearest to ``vector`` (cosine), best first."""
        hits = self._index.nearest(np.asarray(vector, dtype=np.float32), k)
        return [(self._chunk(position), score) for position, score in hits]

    def find(self, query: str, k: int, how: Retrieval = "hybrid") -> list[tuple[Chunk, float]]:
        """Return the ``k`` best passages for the words of ``query`` (see ``CorpusIndex.find``)."""
        return [(self._chunk(i), score) for i, score in self._index.find(query, k, how)]

    def _chunk(self, position: int) -> Chunk:
        passage = self._index.passages[position]
        facts = {"title": passage.title, "document": passage.document}
        return Chunk(passage.id, "passage", passage.text, (), facts)
