"""Rankers on losses whose answers are known."""

import numpy as np
import pytest
import torch

from stategate.nodes.build_context.rico import RANKERS, rank
from stategate.nodes.models.decoders.backend import Gradient
from stategate.nodes.retrieval.ranking import fuse, fuse_named, softmax, z_scores
from stategate.stores.errors import UserError
from tests.nodes.rico.conftest import DOCUMENTS

QUERY = "what is the capital of italy ?"


class Convex:
    """L(w) = |target - Σ w_i s_i|² / 2 over random states: convex in w."""

    name, fingerprint, layers = "convex", "convex", 1

    def __init__(self, seed=0, count=6):
        rng = np.random.default_rng(seed)
        self.states = [
            {"s": torch.tensor(rng.normal(size=4), dtype=torch.float32)} for _ in range(count)
        ]
        self.target = torch.tensor(rng.normal(size=4), dtype=torch.float32)

    def loss(self, states, weights, query):
        mixed = sum(w * s["s"] for w, s in zip(weights, states, strict=True))
        return ((self.target - mixed) ** 2).sum() / 2

    def gradient(self, states, weights, query):
        weights = weights.detach().clone().requires_grad_()
        loss = self.loss(states, weights, query)
        (slope,) = torch.autograd.grad(loss, weights)
        return Gradient(float(loss.detach()), slope)

    def encode(self, documents):
        return [{"s": self.target}] * len(documents)


@pytest.mark.parametrize("seed", range(8))
def test_proposition_3_1_on_a_convex_loss(seed):
    """The gradient bounds the cost of leaving one out, and the gain of keeping one, from below."""
    backend = Convex(seed)
    n = len(backend.states)
    slope = -rank("single_gradient", backend, backend.states, QUERY).scores
    left_out = rank("leave_one_out", backend, backend.states, QUERY).scores
    assert (left_out >= -slope / n - 1e-5).all()
    alone = -rank("loss", backend, backend.states, QUERY).scores
    at = rank("single_gradient", backend, backend.states, QUERY).losses[0]
    assert (alone >= at + slope - slope.mean() - 1e-5).all()


def test_every_ranker_scores_every_document(backend):
    states = backend.encode(DOCUMENTS)
    for name in RANKERS:
        found = rank(name, backend, states, QUERY)
        assert found.scores.shape == (4,), name
        assert np.isfinite(found.scores).all(), name
        assert found.weights.sum() == pytest.approx(1), name
        assert (found.weights >= 0).all(), name
        one = rank(name, backend, states[:1], QUERY)
        assert one.scores.shape == (1,), name


def test_scores_follow_the_documents(backend):
    states = backend.encode(DOCUMENTS)
    turned = [states[i] for i in (2, 0, 3, 1)]
    for name in RANKERS:
        a = rank(name, backend, states, QUERY).scores
        b = rank(name, backend, turned, QUERY).scores
        assert np.allclose(a[[2, 0, 3, 1]], b, atol=1e-3), name


def test_mistakes_are_named(llama):
    states = llama.encode(DOCUMENTS)
    with pytest.raises(UserError, match="unknown ranker 'best'.*single_gradient"):
        rank("best", llama, states, QUERY)
    assert rank("single_gradient", llama, [], QUERY).scores.shape == (0,)


def test_fusion():
    assert np.allclose(z_scores([1, 1, 1]), 0)
    assert np.allclose(z_scores([1, 2, 3]), [-1.2247, 0, 1.2247], atol=1e-3)
    assert np.allclose(fuse([[1, 2, 3], [300, 200, 100]]), 0)
    assert np.allclose(fuse([[1, 2, 3], [300, 200, 100]], [2, 1]), z_scores([1, 2, 3]))
    named = fuse_named("a+b", {"a": [1, 2, 3], "b": [0, 0, 9]})
    assert named.argmax() == 2
    assert softmax(np.array([1000.0, 0])).tolist() == [1, 0]
    with pytest.raises(ValueError):
        fuse([[1, 2]], [1, 2])
