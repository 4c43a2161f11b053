"""Follow-up questions are searched with the turn that they follow."""

from importlib.resources import files

import yaml

from stategate.nodes.build_context.recall import followed_turn
from stategate.stores.traces import Event


def talk(*lines):
    return [Event("OBS" if i % 2 == 0 else "ACT", text, i // 2) for i, text in enumerate(lines)]


def test_a_chain_of_follow_ups_goes_back_to_the_question_that_stands_alone():
    events = talk("Which lake turned red?", "Lake Urmia.", "Where is it?", "In Iran.")
    assert "lake turned red" in followed_turn("Is it deep?", events)


def test_marked_follow_ups_are_understood():
    text = files("stategate.envs.qa.sample").joinpath("follow_ups.yaml").read_text("utf-8")
    right = []
    for row in yaml.safe_load(text):
        events = []
        for step, (question, answer, *about) in enumerate(row["turns"]):
            said = followed_turn(question, events).lower()
            for words in about:
                right.append(any(w in said for w in words.split("|")) if words else not said)
            events += [Event("OBS", question, step), Event("ACT", answer, step)]
    assert sum(right) / len(right) >= 0.8
