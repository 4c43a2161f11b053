"""The policy actor: what it reads, what it may do, what it refuses."""

import json

import numpy as np
import pytest
import torch

from stategate.graph import build_graph, load_config
from stategate.nodes.act.general import ContextFeatures
from stategate.nodes.act.policy import Policy, make_scorer, scoring_actor, shipped_encoder
from stategate.nodes.conformance import check_actor
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import BuiltContext, Piece
from stategate.nodes.resources import Resources
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from tests.kit import built_contexts
from tests.nodes.shop_pages import LINKS, ON_RESULTS, RESULTS, context

PROFILE = WebShopEnv().profile()
FEATURES = shipped_encoder()


@pytest.fixture(scope="module")
def scorer():
    torch.manual_seed(0)
    return make_scorer(len(FEATURES.row_features), len(FEATURES.page_features), hidden=16).eval()


@pytest.fixture
def act(scorer):
    return scoring_actor(scorer, FEATURES, PROFILE)


@pytest.mark.parametrize(
    ("checkpoint", "world", "task"), [("policy", "webshop", "goal"), ("", "alfworld", "game")]
)
def test_the_shipped_policy_wins(checkpoint, world, task):
    choose = ["actor.kind=policy", f"actor.checkpoint='{checkpoint}'", "memory=[short_term]"]
    choose.append("updater.kind=none")
    graph = build_graph(load_config(world, choose), checkpointer=False)
    thread = {"configurable": {"thread_id": "t"}}
    out = [graph.invoke({"task": {task: i}}, thread) for i in range(6)]
    assert sum(one["reward"] == 1 for one in out) >= 4


def test_what_costs_more_than_the_stated_limit_is_not_opened(act):
    chances = act(context(RESULTS, ON_RESULTS), 1).probabilities
    assert [chances[link] > 0 for link in LINKS] == [True, True, False]


@pytest.mark.parametrize(
    ("world", "actor", "context", "expected"),
    [
        ("webshop", "rule", "compress", 576.829),
        ("alfworld", "search_heuristic", "full", 1878.835),
        ("alfworld", "search_heuristic", "compress", 945.168),
    ],
)
def test_features_stay_those_that_checkpoints_were_trained_on(world, actor, context, expected):
    """A weighted sum of every feature of three episodes; each feature has a column."""
    choose = [f"actor.kind={actor}", f"context.kind={context}", "updater.kind=none"]
    choose += ["memory=[short_term]"]
    if context == "compress":
        choose += ["context.ratio=0.3"]
    graph = build_graph(load_config(world, choose), checkpointer=False)
    env, total = graph.agent.config.env, 0.0
    columns = {*FEATURES.row_features, *FEATURES.page_features}
    for task in range(3):
        named = {"goal" if world == "webshop" else "game": task}
        for step, made in enumerate(built_contexts(graph, named)):
            rows, page = ContextFeatures(made, step, env.profile()).described()
            names = {*page, *(name for row in rows.values() for name in row)}
            assert names <= columns
            seen = FEATURES.encode(made, step, env.profile())
            for values in (*seen.rows, seen.page):
                total += float(values @ np.cos(np.arange(len(values))))
    assert total == pytest.approx(expected, abs=0.05)


def test_an_untrained_general_policy_conforms_in_every_world(scorer, tmp_path):
    check_actor(Policy())
    check_actor(Policy(checkpoint=_saved(tmp_path / "any", scorer)))
    rooms = Policy(checkpoint=_saved(tmp_path / "rooms", scorer, world="alfworld"))
    assert "was trained for alfworld, not for webshop" in rooms.misfit(WebShopEnv())


def test_it_plays_what_a_strangers_builder_shows(act):
    """Such a builder says nothing of its text: the policy plays by text and affordances."""
    whole = context(RESULTS, ON_RESULTS)
    plain = tuple(Piece("", "", p.text, p.actions, 0, 0) for p in whole.pieces)
    assert act(BuiltContext(whole.messages, plain, 0), 1).action in whole.actions


def _saved(path, scorer, **changes):
    sizes = {
        "d_row": len(FEATURES.row_features),
        "d_page": len(FEATURES.page_features),
        "hidden": 16,
    }
    names = {"row": FEATURES.row_features, "page": FEATURES.page_features}
    meta = {"kind": "policy", "architecture": sizes, "features": names}
    save_weights(path, scorer.state_dict(), meta | {"embedder": None} | changes, half=False)
    return str(path)


def test_a_checkpoint_for_other_features_or_another_embedder_is_refused(scorer, tmp_path):
    good = _saved(tmp_path / "good", scorer)
    Policy(checkpoint=good).build(Resources())
    gone = {"row": ["gone", *FEATURES.row_features[1:]], "page": FEATURES.page_features}
    other = _saved(tmp_path / "other", scorer, features=gone)
    with pytest.raises(UserError, match=r"made for features that are no more: train it again"):
        Policy(checkpoint=other).build(Resources())
    embedded = _saved(tmp_path / "embedded", scorer, embedder="all-MiniLM-L6-v2")
    with pytest.raises(UserError, match="made for embedder"):
        Policy(checkpoint=embedded).build(Resources())
    with pytest.raises(UserError, match="'retriever'.*'policy' is needed"):
        Policy(checkpoint="retriever-gru").build(Resources())
    told = json.loads((tmp_path / "good.json").read_text())
    sizes, short = told["architecture"], {**told["features"], "row": told["features"]["row"][1:]}
    for damage in (
        {"architecture": {**sizes, "hidden": 17}},
        {"features": None},
        {"features": short},
    ):
        (tmp_path / "good.json").write_text(json.dumps({**told, **damage}))
        with pytest.raises(UserError, match="does not fit its tensors: copy both files, or train"):
            Policy(checkpoint=good).build(Resources())
    (tmp_path / "good.json").write_text('["kind", "architecture", "sha256"]')
    with pytest.raises(UserError, match="no readable"):
        Policy(checkpoint=good).build(Resources())
