"""Tasks in other words: families apart by split, sentences of one's own; limits held; prices read."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from stategate.envs.alfworld import AlfWorld
from stategate.envs.webshop import WebShop, wordings
from stategate.envs.webshop.catalogue import SAMPLE, read_catalogue, read_price
from stategate.envs.webshop.pages import dollars
from stategate.envs.webshop.view import BUY, WebShopActions
from stategate.envs.webshop.wordings import SPLITS, families, names_of, reword
from stategate.language.amounts import content, tokens
from stategate.stores.errors import UserError


def test_families_are_many_and_apart():
    files = Path(wordings.__file__).with_name("families").glob("*.yaml")
    named = [name for file in files for name in yaml.safe_load(file.read_text("utf-8"))]
    assert sorted(named) == sorted(families())  # no name stands in two splits
    patterns = [p for family in families().values() for p in family["patterns"]]
    assert len(set(patterns)) == len(patterns) >= 20 * len(families())
    with pytest.raises(UserError, match="no wording 'klingon'"):
        names_of("klingon")


@pytest.mark.parametrize("split", SPLITS)
def test_every_value_stays_in_every_pattern(sample_shop, split):
    goals = [goal for goal in sample_shop.goals[:40] if goal["goal_options"]]
    names = names_of(split)
    every = [(name, i) for name in names for i in range(len(families()[name]["patterns"]))]
    for number, (family, pattern) in enumerate(every):
        goal = goals[number % len(goals)]
        said = reword(goal, sample_shop.products[goal["asin"]], family, "7", pattern)
        if families()[family].get("change") not in (None, "lower"):
            continue  # it changes the whole text
        there = {token.key for token in tokens(said["instruction_text"])}
        for name, value in said["goal_options"].items():
            named = {token.key for token in content(str(value))}
            assert named <= there or said["excluded"].get(name), (said["instruction_text"], value)


def test_training_goals_share_no_product_with_the_first(sample_shop):
    products = [goal["asin"] for goal in sample_shop.goals]
    trained = {products[i] for i in sample_shop.training}
    assert trained
    assert not trained & {*products[: len(products) // 2]}


def test_a_wording_is_a_parameter_of_the_world(sample_shop):
    said = WebShop.load("sample", wording="question")
    assert [g["asin"] for g in said.goals] == [g["asin"] for g in sample_shop.goals]
    assert said.goals[3]["instruction_text"] != sample_shop.goals[3]["instruction_text"]
    assert said.group_of(3) == sample_shop.goals[3]["asin"]


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


@pytest.mark.parametrize(
    ("price", "amount"),
    [
        ("Price: $12.5", 12.5),
        ("Price: $5.0 to $9.0", 5.0),
        ("Price: $0.01 - $9,000.00", 9000.0),
        ("Price: $9.000,00", 9000.0),
        ("Price: $ 9 000", 9000.0),
        ("Price: $ 9k", 9000.0),
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


@pytest.mark.parametrize(
    ("tag", "prices"),
    [
        ("$.75", (0.75,)),
        ("30¢", (0.3,)),
        ("2 450,00 €", (2450.0,)),
        ("€ 2 450,00", (2450.0,)),
        (7.25, (7.25,)),
        ("$4.00 to $6.50", (4.0, 6.5)),
        ("3 for $7", None),
        ("$-3", None),
    ],
)
def test_a_price_of_a_catalogue_is_read_whole_or_not_at_all(tag, prices):
    if prices is None:
        with pytest.raises(ValueError, match="pricing"):
            read_price(tag)
    else:
        assert read_price(tag)[0] == prices


def test_a_malformed_record_is_skipped(tmp_path):
    shutil.copytree(SAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns("*.py"))
    path = tmp_path / "shop" / "items_shuffle_1000.json"
    items = json.loads(path.read_text("utf-8"))
    items[0]["pricing"], items[1]["pricing"] = "9000 dollars", "ask us"
    path.write_text(json.dumps(items), "utf-8")
    found = read_catalogue(tmp_path / "shop")
    assert items[1]["asin"] not in found.products
    assert found.products[items[0]["asin"]].prices == (9000.0,)
