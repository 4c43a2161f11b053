"""``reader: model``: what a chat model reads takes the place of the learned reading."""

import json

from stategate.language.instruction.goals import rank_names, read_goal
from stategate.language.instruction.parsed import parse
from stategate.nodes.models.reader import read_by_model
from stategate.nodes.resources import Resources
from tests.kit import FakeLlm


def test_a_models_reading_is_taken_and_an_unreadable_one_is_not():
    wish = "kindly get a mug warm for the cupboard, spend 30 tops"
    reply = {"thing": "mug", "place": "cupboard", "kind": "heat", "at_most": 30}
    learned = read_goal(wish)
    read_by_model(Resources(FakeLlm(replies=("no idea",))), wish)
    assert read_goal(wish) == learned
    read_by_model(Resources(FakeLlm(replies=(json.dumps(reply),))), wish)
    kind, chance = read_goal(wish).kind[0]
    assert kind == "heat"
    assert 0.9 <= chance < 1  # a model may be wrong, too
    assert parse(wish).limit.high == 30
    assert rank_names(read_goal(wish), "thing")[0][0] == "mug"
