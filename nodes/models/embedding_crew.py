"""Embedding with several workers: the vectors go into the cache, where what follows finds them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from stategate.nodes.protocols import EmbedderParams, Vector
from stategate.nodes.resources import Resources
from stategate.stores.embeddings import embedding_cache
from stategate.stores.workers import Crew, in_order

_BLOCK = 64  # texts that a worker is given at once


def embed_ahead(params: EmbedderParams, texts: Sequence[str], crew: Crew | None) -> int:
    """Let the ``crew`` embed those of ``texts`` that the cache does not know; returns how many.

    Without a crew nothing is done: whoever needs a vector computes it. Killed in the middle, what was
    embedded on this machine stays.
    """
    if crew is None:
        return 0
    embedder = Resources(None, params).embedder
    known = embedding_cache().get(embedder.name, texts, embedder.dimension)
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    blocks = [missing[start : start + _BLOCK] for start in range(0, len(missing), _BLOCK)]
    rows = in_order(partial(_serve, params), blocks, crew, "embed")
    for block, vectors in zip(blocks, rows, strict=True):
        embedding_cache().put(embedder.name, block, np.asarray(vectors, dtype=np.float32))
    return len(missing)


def _serve(params: EmbedderParams, serve: Callable[[Any], None]) -> None:
    embedder = Resources(None, params).embedder

    def embed(texts: Sequence[str]) -> Vector:
        return embedder.embed(texts)

    serve(embed)
