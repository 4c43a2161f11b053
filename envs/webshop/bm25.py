"""BM25 as Lucene computes it, in numpy: lossy document lengths, ties by document order."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from envs.webshop.text import analyze

K1, B = 0.9, 0.4
_LONG = 10_000  # documents, about two seconds


class Bm25:
    """An inverted index over documents given in order (postings as arrays, one slice a term)."""

    def __init__(self, documents: Iterable[str], total: int = 0) -> None:
        """Index ``documents``; with a large ``total`` of them, behind a progress bar."""
        vocabulary: dict[str, int] = {}
        # Flat arrays: a million documents in lists of small arrays would take gigabytes more.
        terms, counts, sizes, lengths = array("i"), array("f"), array("i"), array("i")
        for document in tqdm(documents, "index", total, disable=total < _LONG):
            tally = Counter(analyze(document))
            terms.extend(vocabulary.setdefault(term, len(vocabulary)) for term in tally)
            counts.extend(tally.values())
            sizes.append(len(tally))
            lengths.append(sum(tally.values()))
        self.size = len(lengths)
        self._vocabulary = vocabulary
        flat = np.frombuffer(terms, np.int32)
        order = np.argsort(flat, kind="stable")
        owners = np.repeat(np.arange(self.size, dtype=np.int32), np.frombuffer(sizes, np.int32))
        frequency = np.frombuffer(counts, np.float32)[order]
        self._documents = owners[order]
        self._starts = np.concatenate(
            ([0], np.cumsum(np.bincount(flat, minlength=len(vocabulary))))
        )
        mean = np.float32(sum(lengths) / self.size) if self.size else np.float32(1)
        decoded = np.array([lossy_length(n) for n in lengths], dtype=np.float32)
        norm = np.float32(K1) * (np.float32(1 - B) + np.float32(B) * decoded / mean)
        # Lucene writes w * tf / (tf + norm) as w - w / (1 + tf / norm), in single precision.
        inverse = np.float32(1) / norm
        self._divisor = np.float32(1) + frequency * inverse[self._documents]

    def search(self, query: str, k: int = 50) -> list[tuple[int, float]]:
        """Return up to ``k`` (document, score) with a positive score, best first."""
        scores = np.zeros(self.size, dtype=np.float64)
        for term, times in Counter(analyze(query)).items():
            number = self._vocabulary.get(term)
            if number is None:
                continue
            start, stop = self._starts[number], self._starts[number + 1]
            found = stop - start
            idf = np.float32(math.log(1 + (self.size - found + 0.5) / (found + 0.5)))
            weight = np.float32(times) * idf
            scores[self._documents[start:stop]] += weight - weight / self._divisor[start:stop]
        return self._best(scores.astype(np.float32), k)

    def _best(self, scores: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        if k <= 0 or not self.size:
            return []
        hits = np.flatnonzero(scores > 0)
        if len(hits) > k:
            # Keep everything that ties with the k-th score, so that document order decides.
            cut = np.partition(scores[hits], len(hits) - k)[len(hits) - k]
            hits = hits[scores[hits] >= cut]
        order = np.argsort(-scores[hits], kind="stable")[:k]
        return [(int(hits[i]), float(scores[hits[i]])) for i in order]


def lossy_length(length: int) -> int:
    """Return ``length`` after Lucene's one-byte encoding: exact to 39, then four significant bits."""
    free = 24
    if length < free:
        return length
    rest = length - free
    shift = max(rest.bit_length() - 4, 0)
    return free + ((rest >> shift) << shift)
