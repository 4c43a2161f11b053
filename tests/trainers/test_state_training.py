"""Trainers end to end on a few sample episodes: collect, both phases, table."""

import json
from typing import Literal

import pytest

from stategate.envs.webshop.view import WebShopView
from stategate.nodes.build_context.heads import Retrieve
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import EnvParams
from stategate.nodes.registry import registry
from stategate.nodes.resources import Resources
from stategate.nodes.update_state.learned import Gru
from stategate.stores.assets.weights import load_arrays, read_meta
from stategate.stores.errors import UserError
from stategate.stores.files import write_lines
from stategate.stores.traces import Event, Trajectory, read_trajectories
from stategate.trainers import retriever, state
from stategate.trainers.collect import collect
from stategate.trainers.settings import (
    RetrieverSettings,
    StateSettings,
    TrajectorySettings,
    read_settings,
)
from stategate.trainers.state import split_by_group


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("trajectories")
    collect(TrajectorySettings(out=out, episodes=60, heldout=15))
    return out


def test_sides_share_no_product_and_no_wording(folder):
    played = read_trajectories(folder / "train.jsonl")
    reported = read_trajectories(folder / "heldout.jsonl")
    sides = [*split_by_group(played, 0.2, 0), reported]
    products = [{t.agent["group"] for t in side} for side in sides]
    assert all(products)
    assert not products[0] & products[1]
    assert not products[0] & products[2]
    assert {t.agent["kind"] for t in played} >= {"rule", "rule:search=search_kind", "noisy"}
    assert {t.agent["mode"] for t in played} == {"rich", "text"}
    assert {t.reward for t in played} == {1.0}
    limits = [t.instruction.count(" and price lower than ") for t in sides[0]]
    assert sum(limits) < len(limits) / 2  # the template's words are few among many


def test_an_actor_of_another_world_is_refused(tmp_path):
    with pytest.raises(UserError, match="is made for alfworld"):
        collect(TrajectorySettings(out=tmp_path, actor=("search_heuristic",)))


HASHED = "embedder={kind: hashing, dimension: 64}"
TRAINERS = {
    "state": (state, StateSettings),
    "retriever": (retriever, RetrieverSettings),
}


def trained(place, name, *fields):
    """Train ``name`` into ``place``, from what was trained before it; return the summary."""
    told = [HASHED, "batch=8", "validation=0.3", f"run={place / name}-run"]
    before = list(TRAINERS)[: list(TRAINERS).index(name)]
    told += [f"{kind}={place / kind}" for kind in before]
    trainer, cls = TRAINERS[name]
    return trainer.train(read_settings(cls, name, [*told, f"checkpoint={place / name}", *fields]))


def test_all_trainers_resume_and_their_checkpoints_fit_each_other(folder, tmp_path):
    data = [f"data={folder / 'train.jsonl'}", f"heldout={folder / 'heldout.jsonl'}"]
    whole = ("state", *data, "epochs=3", "patience=9", "d_state=24", "d_event=16")
    summary = trained(tmp_path, *whole)
    assert [row["agent"] for row in summary["rows"]] == ["gru", "majority class"]
    meta = read_meta(str(tmp_path / "state"))
    assert meta["world"] == "webshop"
    assert tuple(meta["classes"]) == WebShopView().actions.classes
    first = meta["sha256"]
    # What a finished run left is not trained again: the same weights.
    assert len(json.loads((tmp_path / "state-run" / "history.json").read_text())) == 4
    trained(tmp_path, *whole)
    assert read_meta(str(tmp_path / "state"))["sha256"] == first

    row = trained(tmp_path, "retriever", *data, "epochs=2")["rows"][0]
    assert 0 < row["recall@1"] <= row["recall@5"] <= 1
    _, meta = load_arrays(str(tmp_path / "retriever"), "retriever")
    assert meta["state_sha256"] == first
    with pytest.raises(UserError, match="is a 'retriever'"):
        load_arrays(str(tmp_path / "retriever"), "state")

    updater = Gru(checkpoint=str(tmp_path / "state"))
    resources = Resources(None, Hashing(dimension=64), updater, WebShopEnv())
    Retrieve(checkpoint=str(tmp_path / "retriever")).build(resources)
    with pytest.raises(UserError, match="was made for"):  # the shipped one, of another state model
        Retrieve().build(resources)


def test_episodes_of_two_worlds_are_refused(folder, tmp_path):
    collect(TrajectorySettings(out=tmp_path, world="alfworld", episodes=4, heldout=2))
    data = [f"data={folder / 'train.jsonl'}", f"heldout={tmp_path / 'heldout.jsonl'}"]
    with pytest.raises(UserError, match="one world"):
        trained(tmp_path, "state", *data)


class PlainEnv(EnvParams):
    """A world that says nothing of itself."""

    kind: Literal["plain"] = "plain"

    def build(self, resources):
        raise NotImplementedError


def test_a_world_without_classes_is_learned_by_its_verbs(tmp_path, monkeypatch):
    lines = []
    for i in range(12):
        words = "go north" if i % 2 else "take lamp"
        events = [
            Event("OBS", f"Room {i % 3}. You see a lamp.", 0),
            Event("ACT", words, 0),
            Event("OBS", "Done.", 1),
            Event("ACT", "look around", 1),
            Event("OBS", "End.", 1),
        ]
        actions = (("go north", "take lamp"), ("look around",), ())
        task = {"env": "plain"}
        lines.append(Trajectory(f"e{i}", tuple(events), 1.0, "Find the lamp", task, {}, actions))
    write_lines(tmp_path / "rooms.jsonl", (line.to_row() for line in lines))
    monkeypatch.setitem(registry().slots["env"], "plain", PlainEnv)
    common = (f"data={tmp_path / 'rooms.jsonl'}", "heldout=", "epochs=2")
    trained(tmp_path, "state", *common, "d_state=16", "d_event=8")
    meta = read_meta(str(tmp_path / "state"))
    assert meta["classes"] == ["go", "look", "take"]
    assert meta["world"] == "plain"
    trained(tmp_path, "retriever", *common)
