"""BM25 over passages, by bm25s: the words' half of hybrid retrieval."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stores.errors import needs
from stores.files import write_json

_SIZE = "size.json"
_SHOW_FROM = 20_000  # passages from which indexing takes over two seconds


class Lexical:
    """An index over ``texts`` in order; Lucene's BM25 with k1 1.2 and b 0.75, English stems."""

    def __init__(self, texts: Sequence[str]) -> None:
        with needs("qa"):
            import bm25s

        self.size = len(texts)
        tokens = [words(text) for text in texts]
        self._index: Any = None
        if any(tokens):
            self._index = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
            self._index.index(tokens, show_progress=len(texts) >= _SHOW_FROM)

    def search(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return up to ``k`` (place in ``texts``, score > 0), best first; ties by place."""
        known = [] if self._index is None else [w for w in words(query) if w in self._vocabulary]
        if not known or k <= 0:
            return []
        scores = np.asarray(self._index.get_scores(known))
        order = np.argsort(-scores, kind="stable")[:k]
        return [(int(i), float(scores[i])) for i in order if scores[i] > 0]

    def save(self, folder: Path) -> None:
        """Keep the index in ``folder``: numpy arrays and JSON."""
        folder.mkdir(parents=True)
        write_json(folder / _SIZE, {"texts": self.size, "words": self._is_filled})
        if self._is_filled:
            self._index.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> "Lexical":
        """Read what :meth:`save` kept. Raises ``OSError``, ``ValueError`` or ``KeyError``."""
        with needs("qa"):
            import bm25s

        facts = json.loads((folder / _SIZE).read_text())
        loaded = cls(())
        loaded.size = int(facts["texts"])
        if facts["words"]:
            loaded._index = bm25s.BM25.load(folder, show_progress=False)
            if loaded._index.scores["num_docs"] != loaded.size:
                raise ValueError("the index is of other texts")
        return loaded

    @property
    def _is_filled(self) -> bool:
        return self._index is not None

    @property
    def _vocabulary(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._index.vocab_dict
        return vocabulary


def words(text: str) -> list[str]:
    """Return the stems of ``text``'s words, in order, without the most common English ones."""
    with needs("qa"):
        from bm25s.stopwords import STOPWORDS_EN_PLUS

    tokens = [w for w in re.findall(r"\w+", text.lower()) if w not in STOPWORDS_EN_PLUS]
    stems: list[str] = _stemmer().stemWords(tokens)
    return stems


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    with needs("qa"):
        import Stemmer

    return Stemmer.Stemmer("english")
