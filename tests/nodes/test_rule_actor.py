"""The rule actor on hand-made contexts, step by step; and any ruin of a prompt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stategate.envs.protocols import is_legal
from stategate.envs.webshop.pages import SEARCH
from stategate.nodes.act.policy import Policy
from stategate.nodes.act.shop.rule import Rule
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from tests.nodes.shop_pages import (
    ITEM,
    LINKS,
    NAVIGATION,
    ON_DETAIL,
    ON_ITEM,
    OPENED,
    RESULTS,
    WISH,
    context,
)


@pytest.fixture(scope="module")
def actors():
    return Resources(env=WebShopEnv())


@pytest.fixture(scope="module")
def act():
    return Rule().build(None)


def choose(act, lines, actions, history=(), step=None, **kw):
    step = len(history) if step is None else step
    decision = act(context(lines, actions, history, **kw), step)
    assert decision.fallback is None, decision
    return decision.action


LEFT = [*OPENED, "click[< prev]"]
BOTH_LEFT = [*LEFT, "click[b07aaaaaa1]", "click[< prev]"]
LISTED = (*NAVIGATION, *LINKS)
SEEN = [line.replace("aa2 |", "aa2 (seen) |") for line in RESULTS]
PAGE_2 = [line.replace("Page 1", "Page 2") for line in RESULTS]
TELLING = [line.replace("Men's Shirt", "Men's Shirts Long Sleeve Machine Wash") for line in ITEM]
DEAR = [line.replace("$39.99", "$59.99") for line in ITEM]
WITHOUT = [line.replace(" | x-large", "") for line in ITEM]
ALIKE = [line.replace("large | x-large", "large | x-large tall") for line in ITEM]
ALL_DEAR = [line.replace("$1", "$5").replace("$3", "$8") for line in RESULTS]
EMPTY = ["Page 2 (Total results: 3). Buttons: back to search | < prev | next >"]
SEARCHED = "search[machine wash men shirts long sleeve black x-large]"


@pytest.mark.parametrize(
    ("lines", "actions", "history", "action"),
    [
        (["Search bar: search[<query>]"], (SEARCH,), (), SEARCHED),  # without the price
        (RESULTS, LISTED, (), LINKS[1]),  # the best title within the price
        (RESULTS, LISTED, LEFT, LINKS[0]),  # what was left is not opened again
        (SEEN, LISTED, (), LINKS[0]),
        (RESULTS, LISTED, BOTH_LEFT, "click[next >]"),
        (PAGE_2, LISTED, BOTH_LEFT, LINKS[1]),  # none left: the first again
        (ALL_DEAR, LISTED, (), "click[next >]"),  # none is opened that may not be bought
        (ALL_DEAR, LISTED[:1] + LINKS, ("search[shirts]",), LISTED[0]),
        (EMPTY, NAVIGATION, (*BOTH_LEFT, "click[next >]"), "click[< prev]"),
        (RESULTS, LISTED, (*BOTH_LEFT, "click[next >]", "click[< prev]"), LINKS[1]),
        (DEAR, ON_ITEM, (*LEFT, *OPENED[1:]), "click[< prev]"),
        (ITEM, ON_ITEM, OPENED, "click[features]"),
        (TELLING, ON_ITEM, OPENED, "click[black]"),
        (DEAR, ON_ITEM, OPENED, "click[< prev]"),
        (WITHOUT, [a for a in ON_ITEM if a != "click[x-large]"], OPENED, "click[< prev]"),
        (  # a second visit settles for what is most alike
            ALIKE,
            [*ON_ITEM[:-1], "click[x-large tall]"],
            [*OPENED, "click[< prev]", *OPENED[1:], "click[black]"],
            "click[x-large tall]",
        ),
    ],
)
def test_each_page_has_its_rule(act, lines, actions, history, action):
    assert choose(act, lines, actions, history) == action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Text: long sleeve shirts for men, machine wash", "click[< prev]"),
        ("Text: a hose for the garden", "click[back to search]"),
        ("Rating: 5", "click[< prev]"),
    ],
)
def test_the_features_decide(act, text, action):
    lines = ["Buttons: back to search | < prev", text, "Text: "]
    assert choose(act, lines, ON_DETAIL, [*OPENED, "click[features]"]) == action


def test_a_value_with_odd_spaces_is_clicked_as_it_is_and_only_once(act):
    legal = [*ON_ITEM, "click[wine\xa0red]"]
    lines = [line.replace("black |", "black | wine red |") for line in ITEM]
    wish = WISH.replace("color: black", "color: wine\xa0red")
    wish = " ".join(wish.split())
    history = [*OPENED, "click[features]", "click[< prev]"]
    assert choose(act, lines, legal, history, wish=wish) == "click[wine\xa0red]"
    history.append("click[wine red]")
    assert choose(act, lines, legal, history, wish=wish) == "click[x-large]"


def test_without_any_memory_it_still_chooses_everything_and_buys(act):
    clicked = []
    for step in range(2, 30):
        clicked.append(choose(act, ITEM, ON_ITEM, step=step))
        if clicked[-1] == "click[buy now]":
            break
    assert clicked[-1] == "click[buy now]"
    assert {"click[black]", "click[x-large]"} <= set(clicked)
    assert len(clicked) < 18  # within an episode of twenty steps


def test_without_buy_now_the_fallback_is_recorded(act):
    legal = [a for a in ON_ITEM if a != "click[buy now]"]
    decision = act(context([*ITEM, "Chosen: color = black", "Chosen: size = x-large"], legal), 20)
    assert decision.action == "click[< prev]"
    assert decision.fallback


PARTS = [
    WISH,
    *RESULTS,
    *ITEM,
    "Text: black",
    "Chosen: ",
    "Actions so far:",
    "1. click[",
    "Page",
    "$",
]
LINES = st.lists(st.sampled_from(PARTS).flatmap(lambda p: st.integers(0, 80).map(lambda n: p[:n])))
LEGAL = st.lists(st.sampled_from([*NAVIGATION, *LINKS, *ON_ITEM, SEARCH]), unique=True)


@pytest.mark.parametrize("params", [Rule(), Policy()], ids=["rule", "policy"])
@settings(max_examples=100, deadline=None)
@given(LINES, LEGAL, st.integers(0, 40), st.sampled_from([WISH, "", "i want black"]))
def test_any_ruin_of_a_prompt_gives_a_legal_action(actors, params, lines, legal, step, wish):
    act = actors.get(params)
    made = context(lines, legal, wish=wish)
    decision = act(made, step)
    assert decision == act(made, step)
    if not legal or decision.action.startswith("search["):
        assert decision.action.startswith("search[")
        assert len(decision.action) > len("search[]")
    else:
        assert is_legal(decision.action, made.actions)
    if decision.action.startswith("search[") and SEARCH not in legal:
        assert decision.fallback
    if decision.probabilities:
        assert sum(decision.probabilities.values()) == pytest.approx(1)
