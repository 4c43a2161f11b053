"""Tool results, split into chunks, as candidates for a context builder; newest result first."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from stategate.envs.messages.reading import spans
from stategate.envs.protocols import Chunk
from stategate.nodes.protocols import Embedder, Vector
from stategate.nodes.retrieval.page import nearest
from stategate.stores.text import words_of
from stategate.stores.tokens import count_tokens

_EMBEDDED = 64  # parts that one search embeds at most
_SHORTEST = 12  # words below which a part's score is not divided by its length


class HistorySource:
    """The parts of results, given as (name, text) from the oldest on.

    ``all`` begins with the newest result: a builder that fills its budget from the top keeps it. Of
    many parts only those are embedded that share most rare words with ``query``, then the newest:
    an embedding takes milliseconds.
    """

    def __init__(
        self,
        results: Iterable[tuple[str, str]],
        embedder: Callable[[], Embedder] | None = None,
        query: str = "",
    ) -> None:
        self._query = query
        self.by_result = {name: chunks_of(name, text) for name, text in results}
        newest = reversed(self.by_result.values())
        self._chunks = tuple(chunk for chunks in newest for chunk in chunks)
        self._embedder = embedder

    def all(self) -> Sequence[Chunk]:
        """Return every part, newest result first."""
        return self._chunks

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` parts nearest to ``vector`` by cosine."""
        if self._embedder is None:
            return []
        chunks = self._chunks
        if len(chunks) > _EMBEDDED:
            by_words = word_scores(self._query, chunks)
            chunks = tuple(chunks[i] for i in np.argsort(-by_words, kind="stable")[:_EMBEDDED])
        return nearest(chunks, lambda part: part.text.strip(), self._embedder, vector, k)

    def find(self, query: str, k: int) -> list[tuple[Chunk, float]]:
        """Return up to ``k`` parts that share words with ``query``, best first."""
        scores = word_scores(query, self._chunks)
        order = np.argsort(-scores, kind="stable")[:k]
        return [(self._chunks[i], float(scores[i])) for i in order if scores[i] > 0]


@lru_cache(maxsize=2048)
def chunks_of(name: str, text: str) -> tuple[Chunk, ...]:
    """Return the parts of a result as chunks; their ids are ``name/index``.

    Each is one fact, shown whole or not at all. In ``data``, ``leads`` are the indices of the parts
    that lead it, ``is_lead`` says whether it leads others, ``words`` are the stems of it and of its
    leads, ``size`` are its tokens.
    """
    parts = spans(text)
    texts = [text[part.start : part.end] for part in parts]
    words = [frozenset(words_of(part_text)) for part_text in texts]
    chunks = []
    for i, (part, part_text) in enumerate(zip(parts, texts, strict=True)):
        data = {
            "leads": part.leads,
            "is_lead": part.is_lead,
            "words": words[i].union(*(words[lead] for lead in part.leads)),
            "size": count_tokens(part_text.strip()) + 1 if part_text.strip() else 0,
        }
        chunks.append(Chunk(f"{name}/{i}", "part", part_text, data=data))
    return tuple(chunks)


def excerpt(
    chunks: Sequence[Chunk], indices: Iterable[int], shown: Mapping[str, str] | None = None
) -> str:
    """Return parts of a result, with the parts that lead them; "…" stands for gaps.

    ``shown`` has other texts of parts, by the id of their chunk.
    """
    chosen = set(indices)
    body, last = "", -1
    for i in sorted(chosen.union(*(chunks[i].data["leads"] for i in chosen))):
        if i > last + 1:
            body = f"{body.rstrip()}\n…\n" if body else "…\n"
        whole = chunks[i].text.strip()
        body += chunks[i].text.replace(whole, (shown or {}).get(chunks[i].id) or whole, 1)
        last = i
    return body.rstrip()


def word_scores(query: str, chunks: Sequence[Chunk]) -> Vector:
    """Return each part's score: the summed rarity (BM25's idf) of the words of ``query`` in it.

    Longer parts hold more words by chance: the sum is divided by the square root of the length.
    """
    scores = np.zeros(len(chunks), dtype=np.float32)
    query_words = frozenset(words_of(query))
    part_words: list[frozenset[str]] = [chunk.data["words"] for chunk in chunks]
    shared = [query_words & words for words in part_words]
    counts = Counter(word for words in shared for word in words)
    total = len(chunks) + 1
    rarity = {w: math.log(1 + (total - n + 0.5) / (n + 0.5)) for w, n in counts.items()}
    for i, words in enumerate(shared):
        if words:
            length = max(len(part_words[i]), _SHORTEST) / _SHORTEST
            scores[i] = sum(rarity[word] for word in words) / length**0.5
    return scores
