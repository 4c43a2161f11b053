"""The gradient's ranker on any backend, and fusions."""

import numpy as np
import pytest

from stategate.nodes.build_context.rico import rank
from stategate.nodes.retrieval.ranking import fuse, softmax, z_scores
from tests.nodes.rico.conftest import DOCUMENTS

QUERY = "what is the capital of italy ?"


def test_scores_follow_the_documents(backend):
    states = backend.encode(DOCUMENTS)
    ranking = rank(backend, states, QUERY)
    assert ranking.scores.shape == (4,)
    assert ranking.weights.sum() == pytest.approx(1)
    turned = rank(backend, [states[i] for i in (2, 0, 3, 1)], QUERY).scores
    assert np.allclose(ranking.scores[[2, 0, 3, 1]], turned, atol=1e-3)


def test_fusion():
    assert np.allclose(z_scores([1, 1, 1]), 0)
    assert np.allclose(z_scores([1, 2, 3]), [-1.2247, 0, 1.2247], atol=1e-3)
    assert np.allclose(fuse([[1, 2, 3], [300, 200, 100]]), 0)
    assert softmax(np.array([1000.0, 0])).tolist() == [1, 0]
