"""The backend on a tiny Llama: gradients, and which words its loss counts."""

import pytest
import torch

from stategate.nodes.models.decoder import question_tokens
from tests.nodes.rico.conftest import QUERY, TEXTS, make_tokenizer


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
    ids, counted = question_tokens(tokenizer, QUERY, 99)
    told = tokenizer.convert_ids_to_tokens(ids)
    assert [told[place] for place in counted] == ["capital", "italy"]
    assert len(question_tokens(tokenizer, "what is the ?", 99)[1]) == 4
