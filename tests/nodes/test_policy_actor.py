"""The policy actor: what it reads, what it may do, what it refuses."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.pages import SEARCH
from stategate.envs.webshop.reading import Wanted
from stategate.graph import build_graph, load_config
from stategate.nodes.act.encoding import encoder
from stategate.nodes.act.policy import Policy, PolicyActor, make_scorer
from stategate.nodes.act.shop.lexical import describe, queries
from stategate.nodes.conformance import check_actor
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import BuiltContext, Piece
from stategate.nodes.resources import Resources
from stategate.stores.assets.weights import save_weights
from stategate.stores.errors import UserError
from tests.nodes.shop_pages import ITEM, LINKS, ON_ITEM, ON_RESULTS, RESULTS, WISH, context

PROFILE = WebShopEnv().profile()
LEXICAL = encoder("lexical")


@pytest.fixture(scope="module")
def scorer():
    torch.manual_seed(0)
    return make_scorer(len(LEXICAL.row_features), len(LEXICAL.page_features), hidden=16).eval()


@pytest.fixture
def act(scorer):
    return PolicyActor(scorer, LEXICAL, PROFILE)


def read(made, step):
    return describe(made, step, PROFILE)


def test_the_shipped_policy_conforms_and_shops_better_than_its_untrained_self():
    check_actor(Policy())
    world = WebShop.load("sample", observation="rich")
    graph = build_graph(
        load_config("webshop", ["actor.kind=policy", "updater.kind=none", "memory=[short_term]"]),
        checkpointer=False,
    )
    assert world.goals
    out = [
        graph.invoke({"task": {"goal": i}}, {"configurable": {"thread_id": "t"}}) for i in range(8)
    ]
    assert sum(one["reward"] == 1.0 for one in out) >= 4


def test_a_product_that_fits_is_told_from_one_that_does_not():
    rows, _ = read(context(RESULTS, ON_RESULTS, ["search[shirts]"]), 1)
    hose, shirt, dear = (rows[link] for link in LINKS)
    assert (shirt["title properties"], hose["title properties"]) == (1.0, 0.0)
    assert shirt["behind the best fresh"] == 0.0 < hose["behind the best fresh"]
    assert (dear["beyond limit"], shirt["beyond limit"], shirt["within limit"]) == (1.0, 0.0, 1.0)
    assert shirt["ahead of the next fresh"] > 0 > hose["ahead of the next fresh"]
    assert shirt["title unsaid"] < 0.1 < hose["title unsaid"]


def test_the_visible_actions_tell_what_was_opened_read_and_left():
    history = ["search[x]", LINKS[1], "click[features]", "click[back to search]", "search[x]"]
    rows, _ = read(context(RESULTS, ON_RESULTS, history), 5)
    left, fresh = rows[LINKS[1]], rows[LINKS[0]]
    assert (left["tried"], left["was read"], left["was rejected"]) == (1.0, 1.0, 1.0)
    assert (fresh["tried"], fresh["was read"], fresh["was rejected"]) == (0.0, 0.0, 0.0)
    history = ["search[x]", LINKS[0], "click[< prev]", LINKS[1], "click[features]", "click[< prev]"]
    rows, _ = read(context(RESULTS, ON_RESULTS, [*history, "click[< prev]"]), 7)
    unread, kept = rows[LINKS[0]], rows[LINKS[1]]
    assert (unread["was left"], unread["was kept"]) == (1.0, 0.0)
    assert (kept["was left"], kept["was kept"], kept["was rejected"]) == (1.0, 1.0, 0.0)


def test_options_are_compared_with_the_wish_and_with_what_is_chosen():
    rows, page = read(context(ITEM, ON_ITEM, ["search[x]", LINKS[1], "click[blue]"]), 3)
    black, blue = rows["click[black]"], rows["click[blue]"]
    assert (black["is asked"], blue["is asked"], blue["chosen now"]) == (1.0, 0.0, 1.0)
    assert black["chosen rightly"] == 0.0
    assert page["waiting"] == pytest.approx(1.0)  # two values wait, in units of two
    _, done = read(context(ITEM, ON_ITEM, [LINKS[1], "click[black]", "click[x-large]"]), 3)
    assert done["waiting"] == 0.0


def test_every_feature_has_a_column_of_a_checkpoint_that_ships():
    joint = encoder("general")
    known = {*LEXICAL.row_features, *LEXICAL.page_features}
    known |= {n.removeprefix("offered: ") for n in (*joint.row_features, *joint.page_features)}
    pages = ((RESULTS, ON_RESULTS), (ITEM, ON_ITEM), (["Search bar: search[<query>]"], [SEARCH]))
    for lines, actions in pages:
        rows, page = read(context(lines, actions, ["search[x]", LINKS[1]]), 2)
        assert {*page, *(name for row in rows.values() for name in row)} <= known


def test_queries_are_made_of_the_instruction_without_its_price_and_stand_for_the_search_bar(act):
    found = queries(Wanted.of(WISH))
    assert "machine wash men shirts long sleeve black x-large" in found
    assert not any("50" in query or "price" in query for query in found)
    decision = act(context(["Search bar: search[<query>]"], [SEARCH]), 0)
    assert set(decision.probabilities) == {f"search[{query}]" for query in found}


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.one_of(st.sampled_from([*RESULTS, *ITEM, "Text: a"]), st.text()), max_size=12
    ),
    actions=st.lists(
        st.one_of(st.sampled_from([*ON_RESULTS, *ON_ITEM, SEARCH]), st.text(max_size=9)),
        max_size=20,
        unique=True,
    ),
    history=st.lists(st.sampled_from([*ON_ITEM, *LINKS, "search[x]"]), max_size=8),
    wish=st.one_of(st.just(WISH), st.text()),
    step=st.integers(0, 40),
)
def test_any_context_gives_finite_numbers_and_probabilities_over_what_is_legal(
    scorer, lines, actions, history, wish, step
):
    made = context(lines, actions, history, wish)
    seen = LEXICAL.encode(made, step, PROFILE)
    assert np.isfinite(seen.rows).all()
    assert np.isfinite(seen.page).all()
    assert seen.rows.shape == (len(seen.actions), len(LEXICAL.row_features))
    decision = PolicyActor(scorer, LEXICAL, PROFILE)(made, step)
    if decision.fallback is None:
        assert math.isclose(sum(decision.probabilities.values()), 1.0, abs_tol=1e-9)
        assert decision.action in decision.probabilities
        for action in decision.probabilities:
            assert action in actions or (action.startswith("search[") and SEARCH in actions)
    else:
        assert not seen.actions


def test_it_reads_nothing_but_what_is_shown(act):
    world = WebShop.load("sample", observation="rich")
    graph = build_graph(load_config("webshop", ["updater.kind=none"]), checkpointer=False)
    agent = graph.agent
    session, _ = world.reset(goal=1)
    session, _ = world.step(session, "search[shirt]")
    state = {"session": session, "steps": 1, "events": [], "recurrent": None}
    whole = agent.context(state)
    # A stranger's builder says nothing of its text: the policy plays by text and affordances.
    plain = tuple(Piece("", "", p.text, p.actions, 0, 0) for p in whole.pieces)
    assert act(BuiltContext(whole.messages, plain, 0), 1).action in whole.actions
    # Another goal with the same words earns something else and is the same to the actor.
    observed = world.observe(session)
    poisoned = replace(observed, reward=1.0, info={"reward": {"r_type": 1.0}, "goal": "secret"})
    state["observation"] = poisoned
    assert act(agent.context(state), 1) == act(whole, 1)


def test_the_same_seed_plays_the_same_episode_and_draws_follow_the_probabilities(scorer):
    made = context(RESULTS, ON_RESULTS)
    hot = PolicyActor(scorer, LEXICAL, PROFILE, temperature=1.0, seed=3)
    assert hot(made, 1) == PolicyActor(scorer, LEXICAL, PROFILE, temperature=1.0, seed=3)(made, 1)
    drawn = [
        PolicyActor(scorer, LEXICAL, PROFILE, temperature=1.0, seed=s)(made, 1).action
        for s in range(400)
    ]
    for action, chance in hot(made, 1).probabilities.items():
        assert drawn.count(action) / 400 == pytest.approx(chance, abs=0.1)
    cold = PolicyActor(scorer, LEXICAL, PROFILE)(made, 1)
    assert cold.action == max(cold.probabilities, key=cold.probabilities.__getitem__)


def test_the_order_of_candidates_and_padding_change_no_score(scorer):
    seen = LEXICAL.encode(context(RESULTS, ON_RESULTS), 1, PROFILE)
    rows, page = torch.from_numpy(seen.rows)[None], torch.from_numpy(seen.page)[None]
    plain = scorer(rows, page, torch.zeros(1, rows.shape[1], dtype=torch.bool))
    order = torch.randperm(rows.shape[1])
    turned = scorer(rows[:, order], page, torch.zeros(1, rows.shape[1], dtype=torch.bool))
    assert torch.allclose(plain[:, order], turned, atol=1e-5)
    padded = torch.cat([rows, torch.full_like(rows, 7.0)], dim=1)
    absent = torch.arange(padded.shape[1])[None] >= rows.shape[1]
    assert torch.allclose(scorer(padded, page, absent)[:, : rows.shape[1]], plain, atol=1e-5)


def _saved(path, scorer, **changes):
    sizes = {"d_row": len(LEXICAL.row_features), "d_page": len(LEXICAL.page_features), "hidden": 16}
    meta = {"kind": "policy", "architecture": sizes, "encoder": LEXICAL.version, "embedder": None}
    save_weights(path, scorer.state_dict(), meta | changes, half=False)
    return str(path)


def test_a_checkpoint_for_other_features_or_another_embedder_is_refused(scorer, tmp_path):
    good = _saved(tmp_path / "good", scorer)
    Policy(checkpoint=good).build(Resources())
    gone = {"row": ["gone", *LEXICAL.row_features[1:]], "page": LEXICAL.page_features}
    other = _saved(tmp_path / "other", scorer, encoder="lexical-00000000", features=gone)
    with pytest.raises(UserError, match=r"made for encoder 'lexical-00000000'.*train it again"):
        Policy(checkpoint=other).build(Resources())
    embedded = _saved(tmp_path / "embedded", scorer, embedder="all-MiniLM-L6-v2")
    with pytest.raises(UserError, match="made for embedder"):
        Policy(checkpoint=embedded).build(Resources())
    with pytest.raises(UserError, match="'retriever'.*'policy' is needed"):
        Policy(checkpoint="retriever-gru").build(Resources())
    told = json.loads((tmp_path / "good.json").read_text())
    told["architecture"]["hidden"] = 17
    (tmp_path / "good.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match="does not fit"):
        Policy(checkpoint=good).build(Resources())
