"""The backend on decoders of each family: sharing of heads, soft caps, fused weights."""

import pytest
import torch

from stategate.nodes.models.decoder import Backend, question_tokens
from tests.nodes.rico.conftest import ATTENTION, QUERY, TEXTS, make_model, make_tokenizer


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


SHARED = {"num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("Llama", SHARED),
        ("Qwen2", SHARED),
        ("Qwen3", {**SHARED, "head_dim": 8}),
        ("Mistral", SHARED),
        ("Gemma2", {**SHARED, "head_dim": 8, "attn_logit_softcapping": 5.0}),
        ("Phi3", SHARED),
        ("GPTNeoX", {}),
    ],
)
def test_one_hot_is_plain_concatenation(family, more):
    tokenizer = make_tokenizer()
    model = make_model(family, tokenizer, 2, **ATTENTION, **more)
    backend = Backend(model, tokenizer, family, "f", max_tokens=40)
    states = [backend.encode(text) for text in TEXTS]
    for i in range(4):
        one = torch.zeros(4)
        one[i] = 1
        exact = plain_loss(backend, TEXTS[i], QUERY)
        assert float(backend.loss(states, one, QUERY)) == pytest.approx(exact, abs=2e-4)
