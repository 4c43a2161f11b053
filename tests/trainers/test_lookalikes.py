"""Invented competitors, and the teacher that plays among them."""

import random

import pytest

from stategate.envs.webshop import WebShop
from stategate.envs.webshop.reward import has_attribute, score
from stategate.trainers.webshop.course import good_actions, invent, weight, with_lookalikes
from stategate.trainers.webshop.goals import practice


@pytest.fixture(scope="module")
def plan():
    return practice(WebShop.load("sample"), 0)


def test_an_invented_product_has_what_its_own_texts_say_and_offers_what_kin_offer(plan):
    own = [product for product in plan.world.products.values() if product.options]
    made = [
        product
        for i, base in enumerate(own)
        if (product := invent(base, own, f"X{i:09d}", random.Random(i)))
    ]
    assert made
    offered = {str(v) for product in own for values in product.options.values() for v in values}
    for product in made:
        assert all(has_attribute(product, attribute) for attribute in product.attributes)
        assert {v for values in product.options.values() for v in values} <= offered
        assert all(product.options.values())


def test_invented_products_are_found_and_stay_on_their_side(plan):
    more = with_lookalikes(plan, 0, "template", "template")
    before = len(plan.world.goals)
    new = {asin for asin in more.world.products if asin not in plan.world.products}
    assert new
    sides = [
        {more.world.goals[i]["asin"] for i in goals if i >= before}
        for goals in (more.training, more.made_heldout)
    ]
    assert sides[0] | sides[1] == new
    assert not sides[0] & sides[1]
    asin = sorted(new)[0]
    assert asin in more.world.search(more.world.products[asin].name)
    assert len(plan.world.goals) == before
    assert all(weight(plan.world, goal) >= 1 for goal in plan.training[:20])


def test_the_teacher_adds_the_right_products_to_what_the_rule_would_do(plan):
    world = plan.world
    goal = plan.training[0]
    session, page = world.reset(goal=goal)
    past = [("", page.text)]
    (query, *_) = good_actions(world, session, past, page, ())
    assert query.startswith("search[")
    session, page = world.step(session, query)
    good = good_actions(world, session, [*past, (query, page.text)], page, ())
    opened = [action[6:-1].upper() for action in good if action[6:-1].upper() in world.products]
    worth = max(
        score(world.products[a], world.goals[goal], world.prices[a], {})[1]["r_att"] for a in opened
    )
    assert worth == 1
