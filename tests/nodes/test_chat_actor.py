"""The chat actor: schema, parsing, repair, fallback, dead servers."""

import json

import pytest
from langchain_core.messages import HumanMessage

from stategate.envs.webshop.pages import SEARCH
from stategate.graph import build_graph, load_config
from stategate.nodes.act.chat import Chat, GuidedChat, guided_offer
from stategate.nodes.act.replies import Offer, parse, schema
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import BuiltContext, Piece
from stategate.nodes.resources import Resources
from tests.kit import FakeLlm, context_of, step_piece
from tests.nodes.shop_pages import context as shop_page

ACTIONS = ("click[< prev]", "click[dark blue]", 'click[28" x 28"]', "click[buy now]")


def context(text="Instruction: Find me a scarf\n", actions=ACTIONS):
    piece = Piece("p", "page", text, tuple(actions), 1, 1)
    return BuiltContext((HumanMessage(text),), (piece,), 1)


def actor(*replies, kind=Chat):
    llm = FakeLlm(replies=replies)
    return kind().build(Resources(llm, None, env=WebShopEnv()))


def guided(context):
    return guided_offer(context, Resources(env=WebShopEnv()))


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ('{"click": "buy now"}', "click[buy now]"),
        ('Sure!\n```json\n{"click": "Dark Blue"}\n```', "click[dark blue]"),
        ('{"thought": "size", "click": "28\\" x 28\\""}', 'click[28" x 28"]'),
        ('{"action": "click[buy now]"}', "click[buy now]"),
        ("I will click[Buy Now].", "click[buy now]"),
        ("click[back to search]", None),
        ('{"click": 3}', None),
        ('{"search": "scarf"}', None),
        ("", None),
        ("{", None),
    ],
)
def test_parse_accepts_legal_actions_only(reply, action):
    assert parse(reply, ACTIONS) == action


def test_schema_admits_exactly_the_legal_actions():
    body = schema(Offer(("click[a b]", SEARCH)))
    assert body["anyOf"][0]["properties"]["click"]["enum"] == ["a b"]
    assert "search" in body["anyOf"][1]["properties"]
    offer = Offer(("click[red]", "click[< prev]"), "color", ("click[red]",))
    body = schema(offer)
    assert body["anyOf"][0]["properties"]["color"]["enum"] == ["red"]
    assert body["anyOf"][1]["properties"]["click"]["enum"] == ["< prev"]
    assert parse('{"color": "Red"}', offer.actions, offer.group) == "click[red]"


@pytest.mark.parametrize(
    ("second", "action", "fallback"),
    [
        ('{"click": "buy now"}', "click[buy now]", None),
        ("nothing", "click[< prev]", "unreadable reply: nothing"),  # it never buys
    ],
)
def test_a_malformed_reply_gets_one_repair_turn_and_then_a_recorded_fallback(
    second, action, fallback
):
    decision = actor("hm", second)(context(), 0)
    assert (decision.action, decision.fallback, decision.attempts) == (action, fallback, 2)


ITEM = ["Option color: red | dark blue", "Option size: small | large"]
VALUES = ("click[red]", "click[dark blue]", "click[small]", "click[large]")
BUTTONS = ("click[back to search]", "click[< prev]", "click[description]", "click[buy now]")
OPENED = "click[b012345678]"


@pytest.mark.parametrize(
    ("lines", "history", "offered", "group"),
    [
        (["Not chosen yet: color, size"], (), ("click[< prev]", *VALUES[:2]), "color"),
        (["Chosen: color = red"], (), VALUES[2:], "size"),
        (["Chosen: color = red", "Chosen: size = small"], (), ("click[buy now]",), None),
        ([], (OPENED, "click[red]"), ("click[< prev]", *VALUES[2:]), "size"),
        # A choice that the page never marks counts by the latest actions.
        ([], (OPENED, "click[red]", "click[large]"), ("click[< prev]", "click[buy now]"), None),
    ],
)
def test_guides_offer_one_decision_at_a_time(lines, history, offered, group):
    found = guided(shop_page([*ITEM, *lines], (*BUTTONS, *VALUES), history))
    assert set(found.actions) == set(offered)
    assert found.group == group


def test_guides_stop_endless_paging_and_reopening():
    products = ("click[b012345678]", "click[b087654321]")
    actions = ("click[next >]", *products)
    paged = (OPENED, "click[next >]", "click[next >]")
    assert guided(shop_page([], actions, paged)).actions == products[1:]
    assert guided(shop_page([], actions)).actions == products
    assert guided(shop_page([], actions, products)).actions == ("click[next >]",)


def test_what_brought_nothing_new_is_withheld_until_something_new_came():
    lines = [("look", "A room."), ("look", "A room.")]
    replies = '{"action": "look"}', '{"action": "go north"}'

    def chosen(*lines):
        page = Piece("page", "line", "A room.\n", ("look", "go north"), 9, 9)
        built = context_of(*(step_piece(*line) for line in lines), page)
        return actor(*replies, kind=GuidedChat)(built, 0).action

    assert chosen(*lines[:1]) == "look"
    assert chosen(*lines) == "go north"
    assert chosen(*lines, ("go north", "A wood.")) == "look"


def test_a_guide_of_rooms_leaves_what_wins_and_little_else():
    choose = ["actor.kind=guided_random", "context={kind: full, budget: 3000}", "max_steps=40"]
    choose += ["memory=[{kind: short_term, budget: 4000}]", "updater.kind=none"]
    graph = build_graph(load_config("alfworld", choose), checkpointer=False)
    out = [graph.invoke({"task": {"game": i}}, {"configurable": {}}) for i in range(10)]
    assert not any(one["fallbacks"] for one in out)
    assert sum(one["reward"] == 1 for one in out) >= 4  # any command at all wins none of them


@pytest.mark.parametrize(
    "action", ["press A", "press a", "go [x](y)", "[", "[]", "say  it", "say it"]
)
def test_actions_that_differ_in_case_or_space_alone_are_told_apart(action):
    legal = ("press A", "press a", "go [x](y)", "[", "[]", "say  it", "say it")
    assert parse(json.dumps({"action": action}), legal) == action
    assert parse(action, legal) == action
