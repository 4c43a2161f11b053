"""The sample catalogue: the official format, the bytes of its recipe, and goals worth a search."""

import json
import math
import re
from importlib.resources import files

import pytest

from stategate.envs.webshop import WebShop, reward
from tests.envs.sample import make

FOLDER = files("stategate.envs.webshop.sample")
NAMES = ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json")


def read(name):
    return json.loads(FOLDER.joinpath(name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def products():
    return read(NAMES[0])


@pytest.fixture(scope="module")
def tags():
    return read(NAMES[1])


def said_of(product):
    parts = [product["name"], product["full_description"], *product["small_description"]]
    return " ".join(parts).lower()


def test_the_files_are_what_the_recipe_makes():
    made = make.render(make.build(make.read_recipe()))
    assert set(made) == set(NAMES)
    for name, text in made.items():
        assert FOLDER.joinpath(name).read_text(encoding="utf-8") == text, name


def test_size(products):
    assert len(products) >= 240
    assert len({product["category"] for product in products}) >= 6
    total = sum(len(FOLDER.joinpath(name).read_bytes()) for name in NAMES)
    assert total <= 600_000


def test_asins_are_unique_and_ten_characters(products, tags):
    asins = [product["asin"] for product in products]
    assert len(set(asins)) == len(asins)
    assert all(re.fullmatch(r"B0[0-9A-Z]{8}", asin) for asin in asins)
    assert list(tags) == asins
    assert set(read(NAMES[2])) <= set(asins)


def test_prices_come_in_all_three_forms(products):
    prices = [product["pricing"] for product in products]
    one = [p for p in prices if re.fullmatch(r"\$\d+(\.\d+)?", p)]
    spans = [p for p in prices if re.fullmatch(r"\$\d+\.\d\d to \$\d+\.\d\d", p)]
    missing = [p for p in prices if not p]
    assert spans
    assert missing
    assert len(one) + len(spans) + len(missing) == len(prices)
    for span in spans:
        low, high = (float(part.strip("$")) for part in span.split(" to "))
        assert 0 < low < high


def test_option_values_differ_within_a_group(products):
    for product in products:
        for values in (product["customization_options"] or {}).values():
            names = [value["value"].lower() for value in values]
            assert 2 <= len(names) <= 5
            assert len(set(names)) == len(names)


def test_titles_are_as_long_as_a_marketplaces(products):
    assert all(8 <= len(product["name"].split()) <= 25 for product in products)


def test_every_goal_attribute_is_said_and_some_only_below_the_title(products, tags):
    hidden = total = 0
    for product in products:
        for attribute in tags[product["asin"]].get("instruction_attributes", ()):
            assert attribute in said_of(product), (product["asin"], attribute)
            total += 1
            hidden += attribute not in product["name"].lower()
    assert 0.25 < hidden / total < 0.75


def test_a_goals_attributes_point_at_one_product_of_its_type(products, tags):
    by_type = {}
    for product in products:
        by_type.setdefault(product["query"], []).append(product)
    rivals = 0
    for siblings in by_type.values():
        for product in siblings:
            goal = tags[product["asin"]].get("instruction_attributes")
            others = [s for s in siblings if s is not product]
            rivals += bool(goal) and any(
                set(goal) <= set(tags[s["asin"]]["attributes"]) for s in others
            )
    assert rivals <= 3


def test_number_of_goals(products, tags):
    goals = sum(
        math.prod(len(values) for values in (product["customization_options"] or {}).values())
        for product in products
        if "instruction" in tags[product["asin"]]
    )
    assert 800 <= goals <= 2500


# --- in the shop


@pytest.fixture(scope="module")
def shop():
    return WebShop.load("sample")


def test_search_finds_most_goal_products_but_not_all_of_them(shop):
    goals = shop.goals[::3]
    top10 = [g["asin"] in shop.search(g["instruction_text"], 10) for g in goals]
    first = [g["asin"] in shop.search(g["instruction_text"], 1) for g in goals]
    assert 0.9 < sum(top10) / len(goals) < 1
    assert 0.5 < sum(first) / len(goals) < 0.85


def test_buying_what_the_goal_names_earns_everything(shop):
    for goal in range(0, len(shop.goals), 20):
        wish = shop.goals[goal]
        name = shop.catalogue.products[wish["asin"]].name
        session, observation = shop.reset(goal=goal)
        link = f"click[{wish['asin'].lower()}]"
        steps = [f"search[{name}]", link]
        steps += [f"click[{value}]" for value in wish["goal_options"].values()]
        for action in [*steps, "click[buy now]"]:
            session, observation = shop.step(session, action)
        assert observation.done
        assert observation.reward == 1.0, (goal, observation.info["reward"])


def test_the_sample_is_played_without_the_parser(shop, monkeypatch):
    """The nouns of its titles ship: nobody needs a download for a first episode."""
    shipped = reward._shipped()
    assert shipped.keys() == {product.name for product in shop.products.values()}
    assert all(product["name"] in shipped for product in shop.goals)

    def refuse():
        raise AssertionError("the parser was asked for")

    reward.nouns.cache_clear()
    monkeypatch.setattr(reward, "_parser", refuse)
    assert shop.oracle(0) == 1.0


def test_the_shipped_nouns_are_the_parsers():
    parser = reward._parser()
    for title, nouns in list(reward._shipped().items())[::20]:
        assert nouns == [t.text.lower() for t in parser(title) if t.pos_ in ("NOUN", "PROPN")]
