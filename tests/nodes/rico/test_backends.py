"""The backend on a tiny Llama: gradients, one-hot weights, generation."""

import numpy as np
import pytest
import torch

from stategate.nodes.build_context.rico import gradient
from stategate.nodes.models.decoder import question_tokens
from tests.nodes.rico.conftest import TEXTS, make_tokenizer


def plain_loss(backend, document, query):
    """The loss of the question after the document in one ordinary forward pass."""
    read = backend._tokenizer(document, add_special_tokens=False)["input_ids"]
    before = [backend._tokenizer.bos_token_id, *read]
    ids, counted = question_tokens(backend._tokenizer, query, 99)
    places = torch.tensor(counted)
    with torch.no_grad():
        logits = backend._model(torch.tensor([[*before, *ids]])).logits[0, len(before) :]
    chances = logits.log_softmax(-1)[places - 1, torch.tensor(ids)[places]]
    return float(-chances.mean())


def test_one_hot_is_plain_concatenation(backend):
    states = [backend.encode(text) for text in TEXTS]
    for i, document in enumerate(TEXTS):
        weights = torch.zeros(len(TEXTS))
        weights[i] = 1
        found = float(backend.loss(states, weights, QUERY))
        assert found == pytest.approx(plain_loss(backend, document, QUERY), rel=1e-4)


def test_gradient_is_that_of_finite_differences(backend):
    states = [backend.encode(text) for text in TEXTS]
    weights = torch.tensor([0.4, 0.3, 0.2, 0.1])
    slope = backend.slope(states, weights, QUERY)
    assert slope.abs().max() > 1e-3
    for i in range(4):
        step = torch.zeros(4)
        step[i] = 0.01
        up, down = (float(backend.loss(states, weights + s, QUERY)) for s in (step, -step))
        assert float(slope[i]) == pytest.approx((up - down) / 0.02, rel=0.03, abs=2e-3)


def test_loss_is_over_content_words_only():
    tokenizer = make_tokenizer()
    ids, counted = question_tokens(tokenizer, "what is the capital of italy ?", 99)
    told = tokenizer.convert_ids_to_tokens(ids)
    assert [told[place] for place in counted] == ["capital", "italy"]
    assert len(question_tokens(tokenizer, "what is the ?", 99)[1]) == 4


QUERY = "what is the capital of italy ?"


def test_scores_follow_the_documents(backend):
    states = [backend.encode(text) for text in TEXTS]
    scores = gradient(backend, states, QUERY)
    assert scores.shape == (4,)
    turned = gradient(backend, [states[i] for i in (2, 0, 3, 1)], QUERY)
    assert np.allclose(scores[[2, 0, 3, 1]], turned, atol=1e-3)
