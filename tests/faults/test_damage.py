"""Caches that are damaged while they are open: what is damaged is made anew."""

import sqlite3

import numpy as np
import pytest

from stategate.stores.embeddings import EmbeddingCache

UNIT = np.eye(8, dtype=np.float32)
GARBAGE = ["'garbage'", "'{\"a\": [1'", "x'00ff00'", "x''", "9e999", "-1", "'2024'", "'[]'"]


@pytest.mark.parametrize("value", GARBAGE)
@pytest.mark.parametrize("column", ["embedder", "text_sha256", "vector"])
def test_a_vector_that_does_not_belong_is_made_anew(tmp_path, column, value):
    path = tmp_path / "embeddings.sqlite"
    texts = [f"text {i}" for i in range(8)]

    def rows():
        cache = EmbeddingCache(path)  # one that has nothing in memory
        return cache.through("h", texts, 8, lambda part: UNIT[[texts.index(t) for t in part]])

    rows()
    with sqlite3.connect(path) as db:
        db.execute(f"update or ignore embeddings set {column} = {value}")
    assert np.array_equal(rows(), UNIT), "a damaged vector was given out"
