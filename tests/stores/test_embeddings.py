"""The cache of vectors: computed once, kept as they were."""

import numpy as np
import pytest

from stategate.stores.embeddings import EmbeddingCache
from stategate.stores.errors import UserError
from stategate.stores.home import home, require_own_home


def vectors_of(texts):
    rows = [np.random.default_rng(len(t) + ord(t[-1])).normal(size=5) for t in texts]
    return np.asarray(rows, dtype=np.float32)


class Counting:
    def __init__(self):
        self.seen: list[str] = []

    def __call__(self, texts):
        self.seen += texts
        return vectors_of(texts)


def test_each_text_is_computed_once_also_across_runs(tmp_path):
    compute = Counting()
    texts = [f"t{i % 150}" for i in range(400)]
    first = EmbeddingCache(tmp_path / "c.sqlite")
    out = first.through("m", texts, 5, compute)
    assert len(compute.seen) == 150
    second = EmbeddingCache(tmp_path / "c.sqlite")
    again = second.through("m", texts, 5, compute)
    assert len(compute.seen) == 150
    assert out.tobytes() == again.tobytes() == vectors_of(texts).tobytes()


def test_what_comes_out_cannot_be_changed_in_place(tmp_path):
    cache = EmbeddingCache(tmp_path / "c.sqlite")
    cache.put("m", ["x"], np.ones((1, 3), dtype=np.float32))
    with pytest.raises(ValueError):
        cache.get("m", ["x"])["x"][0] = 7
    cache.through("m", ["x"], 3, Counting())[0, 0] = 7  # the caller's own copy
    assert cache.get("m", ["x"])["x"][0] == 1


def test_a_dropped_vector_is_in_no_file(tmp_path):
    cache = EmbeddingCache(tmp_path / "c.sqlite")
    rows = np.random.default_rng(0).normal(size=(200, 64)).astype(np.float32)
    cache.put("m", [f"t{i}" for i in range(200)], rows)
    assert cache.drop(["t7"]) == 1
    held = [path for path in tmp_path.iterdir() if rows[7].tobytes() in path.read_bytes()]
    assert held == []
    assert list(cache.get("m", ["t7", "t8"])) == ["t8"]


@pytest.mark.parametrize("start", [0, 4096])
def test_a_damaged_file_is_made_anew_and_no_wrong_vector_comes_out(tmp_path, start):
    path, texts = tmp_path / "c.sqlite", [f"text {i}" for i in range(300)]
    cache = EmbeddingCache(path)
    cache.through("m", texts, 5, Counting())
    cache._db.compact()
    cache._db.close()
    raw = bytearray(path.read_bytes())
    noise = np.random.default_rng(3).bytes(200)
    for at in range(start, len(raw) - 200, 512):
        raw[at : at + 200] = noise
    path.write_bytes(raw)
    path.with_name("c.sqlite-wal").unlink(missing_ok=True)
    compute = Counting()
    out = EmbeddingCache(path).through("m", texts, 5, compute)
    assert compute.seen
    assert out.tobytes() == vectors_of(texts).tobytes()


def test_a_home_that_cannot_be_written_is_stood_in_for(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    (tmp_path / "assets").mkdir()
    monkeypatch.setattr("stategate.stores.home.os.access", lambda *_: False)
    assert home() != tmp_path
    assert (home() / "assets").resolve() == tmp_path / "assets"
    with pytest.raises(UserError, match="set STATEGATE_HOME"):
        require_own_home()
