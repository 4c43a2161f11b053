"""Both backends: gradients, one-hot weights, and what a state space model's state really is."""

import pytest
import torch

from stategate.nodes.models.decoders.backend import question_tokens
from stategate.nodes.models.decoders.mamba2 import InitialStates, final_states
from tests.nodes.rico.conftest import DOCUMENTS, make_tokenizer

QUERY = "what is the capital of italy ?"


def plain_loss(backend, document, query):
    """The loss of the question after the document in one ordinary forward pass."""
    before = backend._document_ids(document)

    def read(ids):
        return backend._model(torch.tensor([[*before, *ids]])).logits[:, len(before) :]

    with torch.no_grad():
        return float(backend.question_loss(read, query))


def test_one_hot_is_plain_concatenation(backend):
    states = backend.encode(DOCUMENTS)
    for i, document in enumerate(DOCUMENTS):
        weights = torch.zeros(len(DOCUMENTS))
        weights[i] = 1
        found = float(backend.loss(states, weights, QUERY))
        assert found == pytest.approx(plain_loss(backend, document, QUERY), rel=1e-4)


def test_gradient_is_that_of_finite_differences(backend):
    states = backend.encode(DOCUMENTS)
    weights = torch.tensor([0.4, 0.3, 0.2, 0.1])
    slope = backend.slope(states, weights, QUERY)
    assert slope.abs().max() > 1e-3
    for i in range(4):
        step = torch.zeros(4)
        step[i] = 0.01
        up, down = (float(backend.loss(states, weights + s, QUERY)) for s in (step, -step))
        assert float(slope[i]) == pytest.approx((up - down) / 0.02, rel=0.03, abs=2e-3)


def test_generation_reads_the_mixture(backend):
    states = backend.encode(DOCUMENTS)
    said = backend.generate(states, torch.tensor([1.0, 0, 0, 0]), QUERY, max_tokens=6)
    prompt = "\n\nQuestion: what is the capital of italy ?\nAnswer:"
    ids = backend._document_ids(DOCUMENTS[0])
    ids += backend._tokenizer(prompt, add_special_tokens=False)["input_ids"]
    expected = []
    with torch.no_grad():
        for _ in range(6):
            token = int(backend._model(torch.tensor([ids])).logits[0, -1].argmax())
            if token == 1:
                break
            expected.append(token)
            ids.append(token)
    assert said == backend._tokenizer.decode(expected).strip()


def test_states_add_up_in_layer_0_and_only_there(mamba):
    """S([d1; d2]) = A(d2) S(d1) + S(d2), the convolution starting anew at the boundary."""
    first, second = (torch.tensor([mamba._document_ids(d)]) for d in DOCUMENTS[:2])

    def run(ids, ssm=None):
        cache = InitialStates(mamba.layers, ssm)
        with torch.no_grad():
            mamba._model.backbone(ids, cache_params=cache, use_cache=True)
        return final_states(cache)[0]

    s1, s2 = run(first), run(second)
    zero_conv = run(second, dict(enumerate(s1)))
    mixer = mamba._model.backbone.layers[0].mixer
    with torch.no_grad():
        block = mamba._model.backbone.layers[0]
        read = mixer.in_proj(block.norm(mamba._model.backbone.embeddings(second)))
        dt = torch.nn.functional.softplus(read[..., -mixer.num_heads :] + mixer.dt_bias)
        decay = torch.exp((-torch.exp(mixer.A_log) * dt).sum(1))[0]
    together = decay[:, None, None] * s1[0] + s2[0]
    assert torch.allclose(together, zero_conv[0], atol=1e-5)
    assert (decay < 0.999).any()
    # Deeper layers read what layer 0 made of the first document, so there the sum is not exact.
    added = zero_conv[1] - s2[1]
    ratio = added / s1[1]
    assert ratio.flatten(1).std(1).max() > 0.01


def test_mamba_states_continue_the_text(mamba):
    """Initial states and convolution of a prefix give the logits of the whole text."""
    ids = torch.tensor([mamba._document_ids(DOCUMENTS[1])])
    with torch.no_grad():
        whole = mamba._model(ids).logits
        cache = InitialStates(mamba.layers)
        mamba._model(ids[:, :5], cache_params=cache, use_cache=True)
        rest = mamba._model(ids[:, 5:], cache_params=cache, use_cache=True).logits
        assert torch.allclose(rest, whole[:, 5:], atol=1e-4)
        cache = InitialStates(mamba.layers)
        steps = [
            mamba._model(ids[:, t : t + 1], cache_params=cache).logits for t in range(ids.shape[1])
        ]
    assert torch.allclose(torch.cat(steps, 1), whole, atol=1e-4)


def test_loss_is_over_content_words_only():
    tokenizer = make_tokenizer()
    ids, counted = question_tokens(tokenizer, "what is the capital of italy ?", 99)
    told = tokenizer.convert_ids_to_tokens(ids)
    assert [told[place] for place in counted] == ["capital", "italy"]
    assert len(question_tokens(tokenizer, "what is the ?", 99)[1]) == 4
