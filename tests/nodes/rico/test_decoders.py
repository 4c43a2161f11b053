"""The backend on decoders of other families: sharing of heads, soft caps, fused weights."""

from types import SimpleNamespace

import pytest
import torch

from stategate.nodes.models.decoders.backend import Backend, Documents, attend
from tests.nodes.rico.conftest import ATTENTION, TEXTS, make_model, make_tokenizer
from tests.nodes.rico.test_backends import plain_loss

SHARED = {"num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("Qwen2", SHARED),
        ("Qwen3", {**SHARED, "head_dim": 8}),
        ("Mistral", SHARED),
        ("Gemma2", {**SHARED, "head_dim": 8, "attn_logit_softcapping": 5.0}),
        ("Phi3", SHARED),
        ("GPTNeoX", {}),
    ],
)
def test_other_decoders(family, more):
    tokenizer = make_tokenizer()
    model = make_model(family, tokenizer, 2, **ATTENTION, **more)
    backend = Backend(model, tokenizer, family, "f", max_tokens=40)
    query = "what is the capital of italy ?"
    states = backend.encode(TEXTS)
    for i in (1, 2):
        one = torch.zeros(4)
        one[i] = 1
        exact = plain_loss(backend, TEXTS[i], query)
        assert float(backend.loss(states, one, query)) == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize("cap", [None, 2.0])
def test_attention_is_that_of_one_long_text(cap):
    torch.manual_seed(1)
    query, key, value = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    documents = Documents(torch.randn(2, 7, 8), torch.randn(2, 7, 8), torch.randn(7))
    mask = torch.full((3, 5), float("-inf")).triu(3)
    module, shown = SimpleNamespace(layer_idx=0), {0: documents}
    found, _ = attend(module, query, key, value, None, documents=shown, softcap=cap)
    keys = torch.cat([documents.keys, key[0]], 1).repeat_interleave(2, 0)
    values = torch.cat([documents.values, value[0]], 1).repeat_interleave(2, 0)
    scores = query[0] @ keys.transpose(1, 2) / 8**0.5
    scores = scores if cap is None else cap * torch.tanh(scores / cap)
    scores = scores + torch.cat([documents.bias.expand(3, 7), mask], -1)
    exact = (scores.softmax(-1) @ values).transpose(0, 1)[None]
    assert torch.allclose(found, exact, atol=1e-5)
