"""Tool results, split into parts, as candidates for a context builder; newest result first."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stategate.envs.messages.reading import Span
from stategate.envs.protocols import Chunk
from stategate.nodes.protocols import Embedder, Vector
from stategate.nodes.retrieval.page import nearest
from stategate.stores.text import words_of

_EMBEDDED = 64  # parts that one search embeds at most
_SHORTEST = 12  # words below which a part's score is not divided by its length

#: The parts of results, by the result's name, from the oldest result on.
Results = Mapping[str, Sequence[Span]]


class HistorySource:
    """The parts of results as chunks: ``parts`` has the result and the part of each chunk's id.

    ``all`` begins with the newest result: a builder that fills its budget from the top keeps it. Of
    many parts only those are embedded that share most rare words with ``query``, then the newest:
    an embedding takes milliseconds.
    """

    def __init__(self, results: Results, embedder: Callable[[], Embedder], query: str) -> None:
        self._query, self._embedder = query, embedder
        self.parts = {f"{name}/{part.number}": (name, part) for name, part in newest_first(results)}
        self._chunks = [Chunk(id_, "part", part.text) for id_, (_, part) in self.parts.items()]

    def all(self) -> Sequence[Chunk]:
        """Return every part, newest result first."""
        return self._chunks

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` parts nearest to ``vector`` by cosine."""
        chunks = self._chunks
        if len(chunks) > _EMBEDDED:
            by_words = word_scores(self._query, [part for _, part in self.parts.values()])
            chunks = [chunks[i] for i in np.argsort(-by_words, kind="stable")[:_EMBEDDED]]
        return nearest(chunks, lambda chunk: chunk.text.strip(), self._embedder, vector, k)


def newest_first(results: Results) -> list[tuple[str, Span]]:
    """Return each part with its result's name, newest result first."""
    return [(name, part) for name in reversed([*results]) for part in results[name]]


def find(query: str, results: Results, k: int) -> list[tuple[str, Span]]:
    """Return up to ``k`` parts that share words with ``query``, best first, with their results."""
    parts = newest_first(results)
    scores = word_scores(query, [part for _, part in parts])
    return [parts[i] for i in np.argsort(-scores, kind="stable")[:k] if scores[i] > 0]


def excerpt(parts: Sequence[Span], shown: Mapping[int, str]) -> str:
    """Return parts of a result, with the parts that lead them; "…" stands for gaps.

    ``shown`` has the visible text of parts, by their number.
    """
    leads = {lead.number for number in shown for lead in parts[number].leads}
    body, last = "", -1
    for number in sorted({*shown, *leads}):
        if number > last + 1:
            body = f"{body.rstrip()}\n…\n" if body else "…\n"
        whole = parts[number].visible_text
        body += parts[number].text.replace(whole, shown.get(number, whole), 1)
        last = number
    return body.rstrip()


def word_scores(query: str, parts: Sequence[Span]) -> Vector:
    """Return each part's score: the summed rarity (BM25's idf) of the words of ``query`` in it.

    Longer parts hold more words by chance: the sum is divided by the square root of the length.
    """
    scores = np.zeros(len(parts), dtype=np.float32)
    query_words = frozenset(words_of(query))
    shared = [query_words & part.words for part in parts]
    counts = Counter(word for words in shared for word in words)
    total = len(parts) + 1
    rarity = {w: math.log(1 + (total - n + 0.5) / (n + 0.5)) for w, n in counts.items()}
    for i, words in enumerate(shared):
        if words:
            length = max(len(parts[i].words), _SHORTEST) / _SHORTEST
            scores[i] = sum(rarity[word] for word in words) / length**0.5
    return scores
