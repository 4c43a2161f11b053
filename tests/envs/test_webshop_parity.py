"""Parity with the original WebShop on its own golden episodes, goals and search results."""

import json

import pytest

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.pages import SEARCH
from tests.kit import DATA, ceiling, golden

pytestmark = pytest.mark.skipif(
    not (DATA / "webshop" / "golden").is_dir(),
    reason=f"no WebShop data in {DATA}: set STATEGATE_DATA",
)


@pytest.fixture(scope="module", params=["text", "rich"])
def shop(request):
    return WebShop.load(DATA / "webshop", observation=request.param)


@pytest.fixture(scope="module")
def text_shop():
    return WebShop.load(DATA / "webshop")


def test_goals_are_the_originals_in_order(text_shop):
    assert len(text_shop.goals) == 6910
    for expected in golden("webshop", "goals"):
        goal = text_shop.goals[expected["index"]]
        assert {key: goal[key] for key in expected} == expected


def test_every_step_of_every_episode(shop):
    session = None
    for row in golden("webshop", "episodes"):
        if row["action"] is None:
            session, seen = shop.reset({"goal": row["session"]})
        else:
            session, seen = shop.step(json.loads(json.dumps(session)), row["action"])
        assert seen.text == row["obs_text" if shop.observation == "text" else "obs_rich"]
        assert (SEARCH in seen.actions) is row["available"]["has_search_bar"]
        clickable = [
            a.removeprefix("click[").removesuffix("]") for a in seen.actions if a != SEARCH
        ]
        assert clickable == [c for c in row["available"]["clickables"] if c != "search"]
        assert (seen.reward, seen.done) == (row["reward"], row["done"])
        if row["done"]:
            assert seen.info["reward"] == row["reward_info"]
            assert {**shop.goals[row["session"]], "index": None} == {**row["goal"], "index": None}
        again = shop.observe(json.loads(json.dumps(session)))
        assert again.text == seen.text
        assert again.actions == seen.actions


def test_search_returns_the_originals_fifty_in_order(text_shop):
    for row in golden("webshop", "bm25"):
        assert text_shop.search(row["query"]) == [asin for asin, _ in row["hits"]]
        hits = text_shop._engine.search(row["query"])
        for (_, ours), (_, theirs) in zip(hits, row["hits"], strict=True):
            assert ours == pytest.approx(theirs, abs=2e-3)


def test_the_ceiling_of_buying_exactly_what_was_asked_for(text_shop):
    perfect = sum(ceiling(text_shop, goal["index"]) == 1.0 for goal in text_shop.goals)
    assert perfect == 6452
