"""The backend on decoders of other families: sharing of heads, soft caps, fused weights."""

import pytest
import torch

from stategate.nodes.models.decoder import Backend
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
    states = [backend.encode(text) for text in TEXTS]
    for i in (1, 2):
        one = torch.zeros(4)
        one[i] = 1
        exact = plain_loss(backend, TEXTS[i], query)
        assert float(backend.loss(states, one, query)) == pytest.approx(exact, abs=2e-4)
