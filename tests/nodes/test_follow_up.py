"""Follow-ups of any field: what points back, and to what."""

import pytest

from stategate.nodes.build_context.follow_up import standalone, subject
from stategate.nodes.retrieval.entities import extractor_of
from stategate.stores.traces import Event

BOTH = pytest.mark.parametrize("kind", ["rules", "spacy"])


def about(kind, question, *turns):
    events = []
    for step, (asked, answer) in enumerate(turns):
        events += [Event("OBS", asked, step), Event("ACT", answer, step)]
    return subject(question, events, extractor_of(kind))


@BOTH
@pytest.mark.parametrize(
    ("question", "turns", "expected"),
    [
        (
            "How long does it rise?",
            [("What is a brioche dough?", "A rich dough.")],
            "brioche dough",
        ),
        ("And why?", [("Is the tower in Pisa safe?", "Yes.")], "Pisa"),
        ("In which year was that?", [("When did the bank of Lund fail?", "Long ago.")], "Lund"),
        ("How old is she?", [("Who won the race?", "Ida Berg won it by a second.")], "Ida Berg"),
        ("Where are they made?", [("What are the ski boots made of?", "Of plastic.")], "ski boots"),
        ("Which of them is best?", [("Who sells the red boats?", "Many do.")], "red boats"),
    ],
)
def test_a_question_that_points_back_gets_the_subject_of_the_conversation(
    kind, question, turns, expected
):
    assert expected.lower() in about(kind, question, *turns).lower()


@BOTH
@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of Norway?",
        "Who was Ida Berg?",
        "Is it true that whales sing?",
        "If Otto Lind pays the rent, can he stay?",
        "Which films ran in Oslo this week?",
        "Our club keeps its boats in the harbour.",
    ],
)
def test_a_question_that_stands_on_its_own_is_left_alone(kind, question):
    turns = [("How do I bake a brioche?", "With butter.")]
    assert about(kind, question, *turns) == ""


@BOTH
def test_follow_ups_in_a_row_keep_the_subject_and_a_new_question_changes_it(kind):
    turns = [
        ("What is a cello concerto?", "A piece for a cello with an orchestra."),
        ("How long is it?", "Half an hour."),
    ]
    assert "cello concerto" in about(kind, "And who wrote the first one?", *turns)
    turns.append(("What is the Raft protocol?", "A way to agree."))
    assert "Raft" in about(kind, "Who invented it?", *turns)


@BOTH
def test_without_a_conversation_nothing_is_put_in_front(kind):
    extract = extractor_of(kind)
    assert subject("Where is it?", [], extract) == ""
    assert standalone("Where is it?", [], extract) == "Where is it?"
    assert subject("Where is it?", [Event("OBS", "?!", 0)], extract) == ""
