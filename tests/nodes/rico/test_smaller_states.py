"""States that take less room: some layers only, and random projections."""

import pytest
import torch

from stategate.nodes.build_context.rico.rankers import rank
from stategate.nodes.models.decoders.loading import load_backend
from stategate.nodes.models.decoders.mamba2 import Projection
from stategate.stores.errors import UserError
from tests.nodes.rico.conftest import DOCUMENTS


def test_a_subset_of_layers_sees_documents_in_these_layers_only(llama, llama_folder):
    states = llama.encode(DOCUMENTS)
    every = load_backend(str(llama_folder), max_tokens=40, layers=[2, 1, 0])
    assert every.fingerprint == llama.fingerprint
    last = load_backend(str(llama_folder), max_tokens=40, layers=[-1])
    assert last.fingerprint != llama.fingerprint
    (kept,) = last.encode(DOCUMENTS[:1])
    assert torch.allclose(kept["kv"], states[0]["kv"][2:], atol=1e-5)
    query, weights = "where is the capital of italy ?", torch.tensor([0.2, 0.5, 0.2, 0.1])
    small = [{"kv": state["kv"][2:]} for state in states]
    found = last.gradient(small, weights, query)
    step = 1e-3
    for i in range(4):
        moved = torch.zeros(4)
        moved[i] = step
        up, down = (last.loss(small, weights + sign * moved, query) for sign in (1, -1))
        assert float(up - down) / (2 * step) == pytest.approx(float(found.slope[i]), abs=2e-3)
    assert last.generate(small, weights, "who is in rome ?", 3) is not None
    with pytest.raises(UserError, match="layers 0 to 2"):
        load_backend(str(llama_folder), layers=[3])
    with pytest.raises(UserError, match="cannot be projected"):
        load_backend(str(llama_folder), projection=8)


def test_projection_keeps_inner_products_in_expectation():
    torch.manual_seed(0)
    a, b = ({"ssm": torch.randn(2, 3, 50), "conv": torch.randn(2, 4)} for _ in range(2))
    exact = float((a["ssm"] * b["ssm"]).sum())
    made = [Projection(32, seed) for seed in range(400)]
    products = [float((p(a)["ssm"] * p(b)["ssm"]).sum()) for p in made]
    error = torch.tensor(products).std() / 20
    assert abs(sum(products) / 400 - exact) < 4 * error
    assert float(error) * 20 < 2 * float(a["ssm"].norm() * b["ssm"].norm()) / 32**0.5
    assert made[0](a)["ssm"].shape == (2, 32)
    assert torch.equal(made[0](a)["conv"], a["conv"]), "a small part is kept whole"
    assert torch.equal(made[3](a)["ssm"], Projection(32, 3)(a)["ssm"])


def test_projected_states_rank_from_the_empty_state(mamba, mamba_folder):
    query = "where is the capital of italy ?"
    exact = rank("zero_state", mamba, mamba.encode(DOCUMENTS), query).scores
    wide = load_backend(str(mamba_folder), max_tokens=40, projection=4096)
    assert wide.fingerprint != mamba.fingerprint
    assert abs(rank("zero_state", wide, wide.encode(DOCUMENTS), query).scores - exact).max() < 1e-5
    narrow = load_backend(str(mamba_folder), max_tokens=40, projection=300)
    states = narrow.encode(DOCUMENTS)
    assert states[0]["ssm"].shape == (3, 300)
    close = rank("zero_state", narrow, states, query).scores
    assert 0 < abs(close - exact).max() < 0.5 * abs(exact).max()
    for name in ("single_gradient", "multistep", "loss"):
        with pytest.raises(UserError, match="zero_state or naive"):
            rank(name, narrow, states, query)
    assert rank("naive", narrow, states, query).scores.shape == (4,)
