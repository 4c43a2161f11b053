"""The chat actor: schema, parsing, repair, fallback, dead servers."""

import json

import pytest
from langchain_core.messages import HumanMessage

from stategate.envs.webshop.pages import SEARCH
from stategate.nodes.act.chat import Chat
from stategate.nodes.act.replies import parse, schema
from stategate.nodes.models.llms import FakeLlm
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.protocols import BuiltContext, Piece
from stategate.nodes.resources import Resources

ACTIONS = ("click[< prev]", "click[dark blue]", 'click[28" x 28"]', "click[buy now]")


def context(text="Instruction: Find me a scarf\n", actions=ACTIONS):
    piece = Piece("p", "page", text, tuple(actions), 1, 1)
    return BuiltContext((HumanMessage(text),), (piece,), 1)


def actor(*replies):
    return Chat().build(Resources(FakeLlm(replies=replies), env=WebShopEnv()))


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
    body = schema(("click[a b]", SEARCH))
    assert body["anyOf"][0]["properties"]["click"]["enum"] == ["a b"]
    assert "search" in body["anyOf"][1]["properties"]
    assert "anyOf" not in schema(("click[a]",))
    json.dumps(body)


def test_a_malformed_reply_gets_one_repair_turn():
    decision = actor("hm", '{"click": "buy now"}')(context(), 0)
    assert (decision.action, decision.fallback, decision.attempts) == ("click[buy now]", None, 2)


def test_two_malformed_replies_end_in_a_recorded_fallback_that_never_buys():
    decision = actor("hm", "still nothing")(context(), 0)
    assert decision.action == "click[< prev]"
    assert decision.fallback is not None
    assert "still nothing" in decision.fallback


@pytest.mark.parametrize(
    "action", ["press A", "press a", "go [x](y)", "[", "[]", "say  it", "say it"]
)
def test_actions_that_differ_in_case_or_space_alone_are_told_apart(action):
    legal = ("press A", "press a", "go [x](y)", "[", "[]", "say  it", "say it")
    assert parse(json.dumps({"action": action}), legal) == action
    assert parse(action, legal) == action
