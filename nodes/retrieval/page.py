"""A page's chunks as a source of candidates."""

from collections.abc import Callable, Sequence

import numpy as np

from nodes.protocols import Chunk, Embedder, Vector


class PageSource:
    """The chunks of one page; ``search`` embeds them on first use (each text once, by hash)."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        embedder: Callable[[], Embedder],
        describe: Callable[[Chunk], str],
    ) -> None:
        self._chunks = tuple(chunks)
        self._embedder = embedder
        self._describe = describe

    def all(self) -> Sequence[Chunk]:
        """Return every chunk, in page order."""
        return self._chunks

    def search(self, vector: Vector, k: int) -> list[tuple[Chunk, float]]:
        """Return the ``k`` chunks nearest to ``vector`` by cosine; ties keep page order."""
        if not self._chunks or k <= 0:
            return []
        rows = self._embedder().embed([self._describe(chunk) for chunk in self._chunks])
        norm = float(np.linalg.norm(vector)) or 1.0
        scores = rows @ (np.asarray(vector, dtype=np.float32) / norm)
        order = np.argsort(-scores, kind="stable")[:k]
        return [(self._chunks[i], float(scores[i])) for i in order]
