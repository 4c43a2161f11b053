"""Collections in Chroma: a folder and a server behave alike."""

import numpy as np
import pytest

from stategate.stores.corpus.vectors import Vectors
from stategate.stores.errors import UserError

ROWS = np.eye(4, dtype=np.float32)


def filled(where, name="kept"):
    vectors = Vectors(where, name)
    ids = ["a", "b", "c", "d"]
    vectors.put(ids, ROWS, [{"title": id_} for id_ in ids])
    return vectors


def check_search(vectors):
    assert vectors.ids() == {"a", "b", "c", "d"}
    best, second = vectors.search(np.array([0.9, 0.1, 0, 0], dtype=np.float32), 2)
    assert best[0] == "a"
    assert best[1] > second[1]
    vectors.remove(["a", "unknown"])
    assert len(vectors) == 3


def test_a_folder_keeps_what_was_put(tmp_path):
    filled(tmp_path)
    check_search(Vectors(tmp_path, "kept"))


def test_a_missing_server_is_told():
    with pytest.raises(UserError, match="chroma run"):
        Vectors("http://127.0.0.1:9", "kept")


def test_a_chroma_server_does_the_same(chroma):
    check_search(filled(chroma, "served"))
