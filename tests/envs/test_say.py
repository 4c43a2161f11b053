"""Tasks in other words: what pages show, what stays the world's own; limits held; prices read."""

import json
import shutil

import pytest

from stategate.envs.alfworld import AlfWorld
from stategate.envs.webshop import WebShop
from stategate.envs.webshop.catalogue import SAMPLE, read_catalogue
from stategate.envs.webshop.pages import dollars
from stategate.envs.webshop.view import BUY, WebShopActions
from stategate.graph import build_graph, load_config
from stategate.stores.errors import UserError

WORDS = "Could you wash a jug and leave it in the pantry?"


@pytest.mark.parametrize("load", [AlfWorld.load, WebShop.load], ids=["alfworld", "webshop"])
def test_pages_show_the_sentence_and_the_task_stays(load):
    world = load("sample")
    own, _ = world.reset({"goal": 3})
    session, page = world.reset({"goal": 3, "say": f"  {WORDS} "})
    assert world.instruction(session) == WORDS
    assert WORDS in page.text
    assert world.instruction(own) not in page.text
    later, _ = world.step(session, page.actions[0])
    assert world.instruction(later) == WORDS
    with pytest.raises(UserError, match="say"):
        world.reset({"goal": 3, "say": "  "})


def test_a_graph_plays_the_sentence():
    graph = build_graph(load_config("alfworld", ["max_steps=2", "memory=[]"]), checkpointer=False)
    out = graph.invoke({"task": {"game": 3, "say": WORDS}})
    assert out["steps"] == 2


@pytest.mark.parametrize(
    ("price", "amount"),
    [
        ("Price: $12.5", 12.5),
        ("Price: $5.0 to $9.0", 5.0),
        ("Price: $1.00 $9,000.00", 9000.0),
        ("Price: $0.01 - $9,000.00", 9000.0),
        ("Price: $9.000,00", 9000.0),
        ("Rating: N.A.", None),
    ],
)
def test_a_price_tag_is_never_read_as_cheaper_than_it_may_be(price, amount):
    assert dollars(price) == amount


def test_buying_above_a_stated_limit_is_refused():
    shop = WebShop.load("sample", observation="rich")
    number = next(i for i, goal in enumerate(shop.goals) if shop.prices[goal["asin"]] > 10)
    asin, actions = shop.goals[number]["asin"], WebShopActions()
    session, _ = shop.reset({"goal": number})
    session, _ = shop.step(session, f"search[{shop.goals[number]['name']}]")
    _, page = shop.step(session, f"click[{asin}]")
    if BUY not in page.actions:
        pytest.skip("the product is not on the first page")
    assert "limit" in actions.refuses(BUY, page, "Find me one, and price lower than 2.00 dollars")
    assert not actions.refuses(BUY, page, "Find me one, and price lower than 900.00 dollars")
    assert not actions.refuses("click[features]", page, "price lower than 2.00 dollars")


def test_a_malformed_record_is_skipped(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns("*.py"))
    path = tmp_path / "shop" / "items_shuffle_1000.json"
    items = json.loads(path.read_text("utf-8"))
    items[0]["pricing"], items[1]["pricing"] = "9000 dollars", "ask us"
    path.write_text(json.dumps(items), "utf-8")
    found = read_catalogue(tmp_path / "shop")
    assert items[1]["asin"] not in found.products
    assert found.products[items[0]["asin"]].prices == (9000.0,)
