"""Caches that are damaged while they are open: what is damaged is made anew."""

import sqlite3

import numpy as np
import pytest

from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus, prepare
from stategate.stores.corpus.documents import Document
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


@pytest.mark.parametrize("name", ["passages.jsonl", "bm25/vocab.index.json"])
def test_what_was_made_of_a_corpus_is_made_anew(tmp_path, name):
    corpus, chunking = Corpus("notes", tmp_path / "notes"), Chunking(64, 10)
    corpus.sync("o", [Document(str(i), "o", "t", f"text {i} of it") for i in range(4)])
    passages, _ = prepare(corpus, chunking)
    (path,) = tmp_path.rglob(name)
    path.write_text("[{")
    again, lexical = prepare(corpus, chunking)
    assert again == passages
    assert len(lexical.search("text", 9)) == 4
