"""The index of document states: what goes in comes out, whatever happens in between."""

import numpy as np

from stategate.stores.document_states import DocumentStates, document_key


def arrays(seed):
    rng = np.random.default_rng(seed)
    tokens = int(rng.integers(0, 9))
    return {
        "kv": (rng.normal(size=(2, 2, tokens, 4)) * 10.0 ** rng.integers(-3, 3)).astype(np.float32),
        "conv": rng.normal(size=5).astype(np.float32),
    }


def test_round_trip(tmp_path):
    store = DocumentStates(tmp_path / "x")
    given = {document_key(str(i)): arrays(i) for i in range(30)}
    for key, value in given.items():
        store.add(key, value)
    again = DocumentStates(tmp_path / "x")
    assert again.missing(list(given)) == []
    for key, value in given.items():
        for name, array in again.get(key).items():
            assert array.shape == value[name].shape
            top = np.abs(value[name]).max(initial=0)
            assert np.abs(array - value[name]).max(initial=0) <= 1e-3 * top


def test_a_key_is_written_once_and_what_fp16_cannot_hold_is_clipped(tmp_path):
    store = DocumentStates(tmp_path)
    store.add("a", {"s": np.array([1e9, -1e9, 2.0], dtype=np.float32)})
    store.add("a", arrays(2))
    assert store.get("a")["s"].tolist() == [65504, -65504, 2]
    assert store.missing(["b", "a", "b"]) == ["b"]
