"""The actor that quotes: what it quotes, from where, and when it declines."""

from dataclasses import replace
from math import log

import pytest
from langchain_core.messages import AIMessage

from stategate.envs.protocols import answered
from stategate.nodes.act.answer import Extract
from stategate.nodes.act.answerability import (
    NOT_ASKED,
    NOTHING_FOUND,
    Quotable,
    backing,
    quotables,
    yes_chance,
)
from stategate.nodes.models.embedders import Hashing, HashingEmbedder, MiniLM
from stategate.nodes.protocols import Piece
from stategate.nodes.resources import Resources
from tests.kit import FakeLlm, context_of, fact_piece, passage_piece, piece_of, question_piece


def decide(question: str, *pieces: Piece, llm=None, **params):
    context = context_of(*pieces, question_piece(question))
    return Extract(**params).build(Resources(llm, Hashing()))(context, 0)


PASSAGE = passage_piece("The keeper of the lighthouse is Ingrid Solheim.", "The harbour")
TOLD = fact_piece("2026-01-02", "My boat is called Halcyon.")
LIES = fact_piece("2026-01-02", "Halcyon lies in the north harbour. Where is the key?")


def test_a_passage_is_quoted_and_its_source_named():
    decision = decide("Who is the keeper of the lighthouse?", PASSAGE, threshold=0)
    assert "Ingrid Solheim" in answered(decision.action)
    assert "[1] The harbour" in decision.reason


@pytest.mark.parametrize(
    ("question", "fact", "said"),
    [
        ("What is my boat called?", TOLD, "My boat is called Halcyon."),
        ("Where is Halcyon?", LIES, "Halcyon lies in the north harbour."),
    ],
)
def test_what_is_remembered_is_quoted_without_bookkeeping(question, fact, said):
    decision = decide(question, fact, threshold=0)
    assert answered(decision.action) == said
    assert "memory of 2026-01-02" in decision.reason


def test_what_is_not_there_is_declined():
    decision = decide("What is the capital of Peru?", PASSAGE, threshold=0.6)  # hashed words
    assert answered(decision.action) == NOTHING_FOUND
    assert "chance" in decision.reason


@pytest.mark.parametrize(("reply", "chance"), [("Yes", "1.00"), ("No", "0.00")])
def test_the_strong_judge_asks_the_model_whether_the_passage_answers(reply, chance):
    llm = FakeLlm(replies=(reply,))
    decision = decide("Who is the keeper of the lighthouse?", PASSAGE, llm=llm, judge="strong")
    assert ("Ingrid Solheim" in answered(decision.action)) == (reply == "Yes")
    assert f"chance {chance}" in decision.reason


def test_only_what_answers_as_well_is_quoted_and_no_earlier_answer():
    locker, shed = "My locker code is 5512.", "Dieter keeps the shed key."
    facts = [fact_piece("2026-01-02", text) for text in (locker, shed)]
    asked = "What is my locker code?"
    assert answered(decide(asked, *facts).action) == locker
    said = (("speaker", "You"), ("lead", ": "), ("said", "Your locker code is 5512."))
    assert answered(decide(asked, piece_of("history", *said)).action) == NOTHING_FOUND


NYOS = passage_piece("It fills a crater, and it is about 208 metres deep.", "Lake Nyos")
TUBE = passage_piece("A team of the BBC filmed its growth in 2011.", "Brinicle")


@pytest.mark.parametrize(
    ("about", "said"),
    [("happened Lake Nyos 1986", "It fills a crater"), ("brinicle growth", NOTHING_FOUND)],
)
def test_a_follow_up_is_answered_from_a_document_of_its_subject_alone(about, said):
    context = context_of(NYOS, TUBE, question_piece("How deep is it?", about))
    decision = Extract().build(Resources(None, MiniLM()))(context, 0)
    assert answered(decision.action).startswith(said)


def test_the_judges_chance_is_the_probability_of_yes_beside_no():
    tokens = [("Yes", 0.6), (" yes", 0.1), ("No", 0.1), ("Maybe", 0.2)]
    top = [{"token": token, "logprob": log(chance)} for token, chance in tokens]
    reply = AIMessage("Yes", response_metadata={"logprobs": {"content": [{"top_logprobs": top}]}})
    assert yes_chance(reply) == pytest.approx(0.7 / 0.8)


HANDBOOK = """## Prices and times

A dinghy costs 5 euros an hour

The crane lifts boats up to four tonnes on Wednesdays,
and on Fridays by appointment

## Opening hours

- Office: 8 to 17
- Bar: 18 to 23

| boat | metres |
|---|---|
| kayak | 4 |
| canoe | 6 |
"""


def test_headings_items_and_rows_are_quoted_one_by_one():
    piece = passage_piece(HANDBOOK, "Marina")
    assert len(piece.text.splitlines()) == 3  # between its tags, one line
    assert [(one.section, one.text) for one in quotables(context_of(piece))] == [
        ("Prices and times", "A dinghy costs 5 euros an hour"),
        (
            "Prices and times",
            "The crane lifts boats up to four tonnes on Wednesdays, and on Fridays by appointment",
        ),
        ("Opening hours", "Office: 8 to 17"),
        ("Opening hours", "Bar: 18 to 23"),
        ("Opening hours", "boat: kayak; metres: 4"),
        ("Opening hours", "boat: canoe; metres: 6"),
    ]


@pytest.mark.parametrize(
    ("question", "reply", "doubt"),
    [
        ("Who keeps the lighthouse?", "Ingrid Solheim keeps the lighthouse.", ""),
        ("How is cheese made?", "Cheese is made from milk and rennet.", "most of it has no source"),
        ("How old is the keeper?", "The keeper is Ingrid Solheim.", "it names no number"),
        ("When is the rent due?", "The rent is due on Friday.", ""),
        ("Who keeps the rent?", "The rent is due on friday.", "it names no name"),
        ("When does the lighthouse shine?", "The keeper keeps it well.", "it names no time"),
        ("Who keeps the lighthouse?", "Ingrid does.", ""),
        ("What do I do when the lighthouse is dark?", "The keeper keeps it well.", ""),
    ],
)
def test_a_models_answer_needs_a_source_and_what_was_asked_for(question, reply, doubt):
    told = [
        "The keeper of the lighthouse is Ingrid Solheim, who keeps it well.",
        "The rent is due on Friday.",
    ]
    quotable = [Quotable(text, "", "the harbour") for text in told]
    assert backing(question, reply, quotable, HashingEmbedder())[1] == doubt


def test_a_turn_and_its_fact_are_quoted_once():
    told = [fact_piece("2026-05-01", "The ferry leaves on 14 March (2027-03-14) at noon.")]
    said = fact_piece("2026-05-02", "The ferry leaves on 14 March at noon.")
    for pieces in ([*told, said], [said, *told]):
        assert answered(decide("When does the ferry leave?", *pieces).action).count("ferry") == 1


def test_sentences_of_a_document_that_differ_in_a_year_are_two():
    page = passage_piece("The tower burned down (1932). The tower burned down (1950).", "The town")
    texts = [one.text for one in quotables(context_of(page, question_piece("When?")))]
    assert texts == ["The tower burned down (1932).", "The tower burned down (1950)."]


def test_what_has_ended_is_not_quoted_from_the_conversation_as_if_it_held():
    words = "My knee hurts since Wednesday."
    turn = piece_of("history", ("speaker", "User"), ("lead", ": "), ("said", words))
    for added in (" (2026-11-25)", " (about: shin)", ""):
        said = f"My knee hurts since Wednesday{added}." if "20" in added else words + added
        day = ("day", "2026-11-28"), ("until", " (until 2026-11-28)")
        fact = piece_of("fact", *day, ("lead", ': "'), ("said", said))
        answer_text = answered(decide("How is my knee?", turn, fact, threshold=0).action)
        assert (answer_text.count("knee"), "(until" in answer_text) == (1, True)


def test_the_words_of_the_user_and_of_a_document_are_told_apart():
    turn = piece_of("history", ("speaker", "User"), ("said", "The keeper of my boat is Ana."))
    text = answered(decide("Who is the keeper?", turn, PASSAGE, threshold=0).action)
    assert "[1]" in text


def test_what_was_asked_before_is_told_and_what_was_not_is_declined():
    told = [
        fact_piece("2026-05-01", "When does the ferry to Langeoog leave?"),
        fact_piece("2026-05-02", "How long is the crossing?"),
        fact_piece("2026-05-03", "I shall bring my dog Bo."),
    ]

    def reply(question):
        return answered(decide(question, *told, sentences=1).action)

    ferry = 'You asked: "When does the ferry to Langeoog leave?"'
    assert reply("Which ferry did I ask you about?") == ferry
    assert reply("What did I ask first?") == ferry
    assert reply("What did I ask last time?") == 'You asked: "How long is the crossing?"'
    assert reply("Which elephant did I ask about?") == NOTHING_FOUND
    assert reply("What did I tell you of Bo?") == "I shall bring my dog Bo."
    assert reply("What did I ask second?") == 'You asked: "How long is the crossing?"'
    assert reply("What did I ask third?") == NOTHING_FOUND
    assert reply("Did I ask about my dog?") == NOTHING_FOUND, "it was told, not asked"


def test_what_we_discussed_may_stand_in_documents_and_what_i_asked_does_not():
    minutes = passage_piece("We discussed the roof and chose slate.", "Minutes")
    told = piece_of("history", ("speaker", "User"), ("said", "Who is the chair?"))
    for subject, count in (("we discuss", 1), ("I ask about", 0)):
        answer_text = answered(
            decide(f"Did {subject} the roof?", told, minutes, threshold=0.01).action
        )
        assert answer_text.count("slate") == count


def test_the_first_question_of_a_talk_whose_beginning_is_not_shown_is_not_known():
    words = ("speaker", "User"), ("said", "Where is the ferry?")
    for turn, known in ((0, True), (4, False)):
        piece = replace(piece_of("history", *words), id=f"history:{turn}:OBS")
        text = answered(decide("What did I ask first?", piece, sentences=1).action)
        assert (text == NOTHING_FOUND) != known


@pytest.mark.parametrize("text", ["hello?", "Good night!", "thanks a lot"])
def test_small_talk_is_no_question(text):
    assert answered(decide(text, PASSAGE, TOLD).action) == NOT_ASKED


def test_a_document_of_another_subject_answers_nothing_and_keywords_are_matched():
    other = passage_piece("Phosphine has been named as well.", "Naga fireball")
    mekong = passage_piece("Naga fireballs rise from the Mekong.", "Naga fireball")

    def reply(question, *pieces):
        context = context_of(*pieces, question_piece(question))
        return answered(Extract().build(Resources(None, MiniLM()))(context, 0).action)

    assert reply("What is my dog called?", other) == NOTHING_FOUND
    assert reply("Where do Naga fireballs rise?", mekong) == "Naga fireballs rise from the Mekong."
    assert reply("boat name", TOLD) == "My boat is called Halcyon."
    assert reply("ugh", TOLD) == NOTHING_FOUND
