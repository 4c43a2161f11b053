"""The learned state: what it reads, constant size, and what a wrong checkpoint says."""

import json

import numpy as np
import pytest
import torch

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.reading import inputs_of
from stategate.envs.webshop.view import WebShopActions
from stategate.graph import build_graph, load_config
from stategate.nodes.build_context.baselines import Full
from stategate.nodes.conformance import check_updater
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from stategate.nodes.update_state import unpacked
from stategate.nodes.update_state.learned import Gru, type_of
from stategate.nodes.update_state.state_models import INPUT_TYPES, StateModel
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from stategate.stores.traces import Event
from stategate.trainers.episodes import Walk
from tests.kit import rule_moves


@pytest.fixture
def checkpoint(tmp_path):
    """A small untrained GRU for the hashing embedder."""
    torch.manual_seed(0)
    sizes = {"classes": 8, "d_text": 256, "d_event": 16, "d_state": 24}
    model = StateModel(**sizes)
    meta = {"kind": "state", "architecture": sizes, "embedder": "hashing/256"}
    meta["classes"] = list(WebShopActions.classes)
    save_weights(tmp_path / "state", model.state_dict(), meta)
    return str(tmp_path / "state")


def test_inputs_are_bounded_whatever_the_page():
    long = (
        "Instruction: [SEP] " + ", ".join(f"word{i}" for i in range(500)) + " [SEP] Back to Search"
    )
    rows = inputs_of(Event("OBS", long + " [SEP] thing" * 5000, 0))
    assert len(rows) <= 14
    assert all(0 <= type_of(row) < INPUT_TYPES for row in rows)
    assert inputs_of(Event("OBS", "a page never heard of", 3))[0].text == "a page never heard of"


def test_the_state_has_constant_size_and_reads_in_order(checkpoint):
    resources = Resources(None, Hashing(), env=WebShopEnv())
    check_updater(Gru(checkpoint=checkpoint), resources)
    updater = Gru(checkpoint=checkpoint).build(resources)
    shop = WebShop.load("sample")
    walk = Walk(resources, shop, {"goal": 5}, Full())
    for move in rule_moves(5):
        walk.take(move)
    events = walk.trajectory("e", {}, {}).events
    state = updater.initial()
    for event in events:
        state = updater.update(state, [event])
    assert state.shape == (48,)
    assert state.dtype == np.float32
    assert not np.allclose(state, updater.update(updater.initial(), events[::-1]))
    chances = updater.predict(state)
    assert set(chances) == set(WebShopActions.classes)
    assert sum(chances.values()) == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(UserError, match="start a new thread"):
        updater.update(np.zeros(7, np.float32), events[:1])


def test_wrong_checkpoints_are_refused(checkpoint, tmp_path):
    resources = Resources(None, Hashing())
    with pytest.raises(UserError, match="hashing/256"):
        Gru(checkpoint=checkpoint).build(Resources(None, Hashing(dimension=64)))
    data = (tmp_path / "state.safetensors").read_bytes()
    (tmp_path / "state.safetensors").write_bytes(data[:-4] + b"oops")
    with pytest.raises(UserError, match="damaged"):
        Gru(checkpoint=checkpoint).build(resources)
    (tmp_path / "state.json").write_text(json.dumps({"kind": "state"}))
    with pytest.raises(UserError, match="train it again"):
        Gru(checkpoint=checkpoint).build(resources)


def test_the_shipped_state_drives_an_episode_and_swaps_by_one_word():
    config = load_config("webshop", ["memory=[short_term]"])
    assert config.updater.kind == "gru"
    graph = build_graph(config)
    task = {"task": {"env": "webshop", "goal": 5}}
    for i, context in enumerate(
        ({"kind": "retrieve"}, {"kind": "compress", "budget": 200}, {"kind": "full"})
    ):
        out = graph.invoke(
            task, {"configurable": {"thread_id": f"s{i}"}}, context={"context": context}
        )
        assert out["steps"] > 0
        state = graph.get_state({"configurable": {"thread_id": f"s{i}"}}).values
        recurrent = unpacked(state["recurrent"])
        assert recurrent.shape == (512,)
        assert np.abs(recurrent).max() > 0
