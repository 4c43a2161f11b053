"""Trainers end to end on a few sample episodes: collect, both phases, allocator, table."""

import json

import pytest

from envs.webshop import WebShop
from nodes.models.embedders import Hashing, HashingEmbedder
from nodes.resources import Resources
from stores.assets.weights import load_weights, read_meta
from stores.errors import UserError
from stores.traces.store import TraceStore
from stores.traces.trajectories import read_trajectories
from trainers.episodes.collect import collect, splits
from trainers.episodes.split import group_of, split_by_group
from trainers.settings import read_settings
from trainers.state import allocator, next_action, retriever


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("trajectories")
    collect("sample", out, n=40, heldout=10)
    return out


def test_splits_share_no_product_with_the_goals_before(folder):
    shop = WebShop.load("sample")
    found = splits(shop)
    first = min(found["train-index"])
    tested = {shop.goals[i]["asin"] for i in range(first)}
    assert not tested & {shop.goals[i]["asin"] for i in found["train"]}
    train, validation = split_by_group(read_trajectories(folder / "train.jsonl"), 0.2, 0)
    assert not {group_of(t) for t in train} & {group_of(t) for t in validation}


def test_the_expert_is_the_same_again_and_mostly_right(folder, tmp_path):
    told = json.loads((folder / "collect.json").read_text())
    assert told["splits"]["train"]["success"] > 0.9
    assert 0.2 < told["splits"]["train"]["with_detour"] < 0.9
    again = collect("sample", tmp_path / "again", n=40, heldout=10)
    hashes = {name: split["sha256"] for name, split in again["splits"].items()}
    assert hashes == {name: split["sha256"] for name, split in told["splits"].items()}


def test_trajectories_are_the_trace_stores_export(folder, tmp_path):
    store = TraceStore(tmp_path / "traces.sqlite")
    assert store.import_jsonl(folder / "heldout.jsonl") == 10
    store.export_jsonl(tmp_path / "back.jsonl")
    there = {t.episode_id: t.events for t in read_trajectories(folder / "heldout.jsonl")}
    back = {t.episode_id: t.events for t in read_trajectories(tmp_path / "back.jsonl")}
    assert back == there


def test_all_trainers_resume_and_their_checkpoints_fit_each_other(folder, tmp_path):
    embedder = HashingEmbedder(64)
    common = [
        f"data={folder / 'train.jsonl'}", f"heldout={folder / 'heldout.jsonl'}", "batch=8",
        "validation=0.3",
    ]  # fmt: skip

    def settings(cls, name, run, *more):
        return read_settings(cls, name, [*common, f"run={tmp_path / run}", *more])

    small = ["d_state=24", "d_event=16", f"checkpoint={tmp_path / 'state'}"]
    cls = next_action.NextActionSettings
    whole = settings(cls, "next_action", "whole", "epochs=3", "patience=9", *small)
    summary = next_action.train(whole, ["test"], embedder)
    assert [row["agent"] for row in summary["rows"]] == [
        "gru", "majority class", "bag of last observation"
    ]  # fmt: skip
    first = read_meta(str(tmp_path / "state"))["sha256"]
    # Killed after two epochs, then resumed: the same weights.
    history = tmp_path / "whole" / "history.json"
    assert len(json.loads(history.read_text())) == 4
    assert (tmp_path / "whole" / "curves.png").stat().st_size > 1000
    next_action.train(whole, ["test"], embedder)
    assert read_meta(str(tmp_path / "state"))["sha256"] == first

    state = f"state={tmp_path / 'state'}"
    phase2 = settings(
        retriever.RetrieverSettings, "retriever", "two", "epochs=2", state,
        f"checkpoint={tmp_path / 'retriever'}",
    )  # fmt: skip
    row = retriever.train(phase2, ["test"], embedder)["rows"][0]
    assert 0 < row["recall@1"] <= row["recall@5"] <= 1
    _, meta = load_weights(str(tmp_path / "retriever"), "retriever")
    assert meta["state_sha256"] == first
    third = settings(
        allocator.AllocatorSettings, "allocator", "three", "epochs=2", state,
        f"retriever={tmp_path / 'retriever'}", f"checkpoint={tmp_path / 'allocator'}",
    )  # fmt: skip
    rows = allocator.train(third, ["test"], embedder)["rows"]
    assert {r["agent"] for r in rows} == {"learned", "uniform"}
    with pytest.raises(UserError, match="is a 'retriever'"):
        load_weights(str(tmp_path / "retriever"), "state")

    from nodes.update_state.kinds import Gru

    from evals.worlds.retrieval import queries_of

    resources = Resources(None, Hashing(dimension=64), Gru(checkpoint=str(tmp_path / "state")))
    with pytest.raises(UserError, match="was made for"):  # the shipped one, of another state model
        queries_of(resources)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data=nowhere.jsonl", "trainers.episodes.collect"),
        ("epochs=0", "epochs"),
        ("colour=red", "colour"),
    ],
)
def test_mistakes_in_settings_are_one_line(override, message):
    with pytest.raises(UserError, match=message):
        next_action.train(
            read_settings(next_action.NextActionSettings, "next_action", [override]), ["test"]
        )
