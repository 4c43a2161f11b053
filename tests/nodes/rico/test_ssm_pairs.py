"""The tiny state space model in ``ssm_pairs``: its gradient finds the right document."""

from pathlib import Path

import numpy as np
import pytest

from stategate.nodes.build_context.rico import rank
from stategate.nodes.models.decoders.backend import Document
from stategate.nodes.models.decoders.loading import load_backend


@pytest.fixture(scope="module")
def shipped():
    return load_backend(str(Path(__file__).parent / "ssm_pairs"), loss="mean", max_tokens=64)


def draw(rng):
    """Return eight documents of four key-value pairs, a question of two pairs, the right index.

    What the model was trained on: 48 keys that no two documents share, 24 values.
    """
    keys = rng.permutation(48)[:32].reshape(8, 4)
    values = rng.integers(0, 24, (8, 4))
    texts = [
        " ".join(f"k{k} v{v}" for k, v in zip(ks, vs, strict=True))
        for ks, vs in zip(keys, values, strict=True)
    ]
    right = int(rng.integers(8))
    chosen = rng.permutation(4)[:2]
    asked = " ".join(f"k{keys[right, i]} v{values[right, i]}" for i in chosen)
    return [Document("", text) for text in texts], asked, right


def test_the_gradient_finds_the_right_document(shipped):
    """On 40 new questions over eight documents; chance is one in eight."""
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(40):
        documents, question, right = draw(rng)
        scores = rank(shipped, shipped.encode(documents), question).scores
        hits += int(scores.argmax()) == right
    assert hits >= 30


def test_the_gradient_follows_the_question_not_the_place(shipped):
    documents = [Document("", "k1 v1 k2 v2 k3 v3 k4 v4"), Document("", "k5 v5 k6 v6 k7 v7 k8 v8")]
    states = shipped.encode(documents)
    for question, right in (("k1 v1 k3 v3", 0), ("k5 v5 k8 v8", 1)):
        scores = rank(shipped, states, question).scores
        assert scores.argmax() == right
