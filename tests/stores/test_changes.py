"""What people take back, correct and say anew: the old holds until then, and is not lost."""

import pytest

from stategate.nodes.models.embedders import HashingEmbedder
from stategate.nodes.retrieval.remember import Memory

FIRST, THEN, LAST = "2024-01-01", "2024-03-01", "2024-06-01"


@pytest.fixture
def memory(tmp_path):
    return Memory(str(tmp_path / "memory.sqlite"), embedder=HashingEmbedder(), user="ana")


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        (
            "My favourite drink is tea.",
            "My favourite drink is coffee.",
            "What is my favourite drink?",
        ),
        ("I have a dog.", "I don't have a dog any more.", "Do I have a dog?"),
        ("I have a dog called Rex.", "I don't have a dog anymore.", "Do I have a dog?"),
        ("I got a cat.", "I no longer have the cat.", "Do I have a cat?"),
        ("I work at Siemens.", "I quit my job at Siemens.", "Where do I work?"),
        ("I live in Oslo.", "I have moved from Oslo to Bergen.", "Where do I live?"),
        ("My sister lives in Oslo.", "Well, my sister lives in Bergen.", "Where is my sister?"),
        ("My birthday is on 11 May.", "Sorry, no, my birthday is on 12 May.", "Which birthday?"),
        ("The meeting is at 3 pm.", "No, the meeting is at 4 pm.", "When is the meeting?"),
        ("I am allergic to nuts.", "I'm not allergic to nuts after all.", "What am I allergic to?"),
        ("I love running.", "I hate running now.", "Do I like running?"),
        ("I'm vegetarian.", "I'm not vegetarian any more.", "Am I vegetarian?"),
        ("I'm married to Tom.", "Tom and I got divorced.", "Am I married?"),
        ("I drive a Volvo.", "I sold the Volvo.", "Which Volvo?"),
        ("I am learning Spanish.", "I stopped learning Spanish.", "Am I learning Spanish?"),
        (
            "I'm allergic to latex.",
            "It's not latex that I am allergic to, it's nickel.",
            "Allergic?",
        ),
        ("Zofia's school is Petri.", "Zofia's school is Lessing.", "Which school is Zofia's?"),
    ],
)
def test_what_is_taken_back_or_corrected_holds_until_then(memory, before, after, question):
    old = memory.remember(before, at=FIRST, speaker="Ana").fact
    new = memory.remember(after, at=THEN, speaker="Ana")
    assert new.closed == (old,)
    now = memory.recall(question)
    assert now[0].id == new.fact
    assert next(f for f in now if f.id == old).closed_by == new.fact
    assert [f.id for f in memory.recall(question, as_of="2024-02-01")] == [old]
    assert old not in [f.id for f in memory.recall(question, as_of="2024-04-01")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I have a dog.", "I don't have a cat."),
        ("I like sushi.", "I don't like ramen."),
        ("I live in Oslo.", "I worked in Bergen."),
        ("I have a dog.", "My sister doesn't have a dog."),
        ("I drive a Volvo.", "I sold the piano."),
        ("My favourite drink is tea.", "My favourite colour is teal."),
        ("I have two cats.", "I have a dog."),
    ],
)
def test_what_says_something_else_ends_nothing(memory, before, after):
    memory.remember(before, at=FIRST, speaker="Ana")
    assert memory.remember(after, at=THEN, speaker="Ana").closed == ()


def test_what_was_denied_can_be_so_again(memory):
    texts = ("I have a dog.", "I don't have a dog any more.", "I have a dog again.")
    first, second, third = (
        memory.remember(text, at=at, speaker="Ana")
        for text, at in zip(texts, (FIRST, THEN, LAST), strict=True)
    )
    assert (second.closed, third.closed) == ((first.fact,), (second.fact,))
    holding = {f.question: f.valid_to is None for f in memory.store.facts(memory.namespace)}
    assert list(holding.values()) == [False, False, True]


def test_a_date_that_is_the_value_is_not_when_it_began_to_hold(memory):
    memory.remember("My birthday is on 12 May.", at="2024-01-10", speaker="Ana")
    [row] = memory.store.timeline(memory.namespace)
    assert row["valid_from"] < 1_705_000_000  # January, not May
    memory.remember("I moved to Oslo last May.", at="2024-01-10", speaker="Ana")
    moved = [r for r in memory.store.timeline(memory.namespace) if r["relation"] == "lives in"]
    assert moved[0]["valid_from"] < 1_690_000_000


@pytest.mark.parametrize(
    "text",
    [
        "Hello!",
        "Good morning, nice weather today!",
        "Have a nice weekend!",
        "That makes sense.",
        "lol",
        "Never mind.",
        "Thanks a lot!",
        "How are you?",
        "Can you help me?",
        "I see.",
        "👍",
    ],
)
def test_small_talk_is_refused_with_a_reason(memory, text):
    written = memory.remember(text, speaker="Ana")
    assert (written.outcome, written.fact) == ("refused", None)
    assert "small talk" in written.reason
    assert memory.store.facts(memory.namespace) == []


@pytest.mark.parametrize("text", ["My name is Bo.", "I am 34.", "No, I hate cheese.", "Tomorrow!"])
def test_short_turns_that_tell_something_are_kept(memory, text):
    assert memory.remember(text, speaker="Ana").outcome == "stored"


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ("I am flying to Rome in June.", "I said Rome, but I meant Milan.", "Milan"),
        ("I am flying to Rome in June.", "Did I say Rome? I meant Milan.", "Milan"),
        ("Our caterer is called Brandt.", "It's Brand, not Brandt.", "Brand"),
        ("The ferry leaves at 9:40.", "That should be 9:20.", "9:20"),
        ("My cousin lives in Peru.", "I was wrong about my cousin: she lives in Chile.", "Chile"),
        (
            "The spare key is under the pot.",
            "The spare key is in the shed, not under the pot.",
            "shed",
        ),
        ("I have a dog called Rex.", "Rex died.", ""),
        ("I have a dog called Rex.", "We had to put Rex down on Monday.", ""),
        ("I own a kayak.", "Somebody stole my kayak.", ""),
        ("I teach at the music school.", "My contract with the music school has ended.", ""),
        ("We are going to Lisbon in May.", "The trip to Lisbon is off.", ""),
        ("I'm allergic to peanuts.", "Please forget what I said about peanuts.", ""),
        ("I play chess on Fridays.", "It isn't true that I play chess.", ""),
    ],
)
def test_a_change_names_what_was_said_and_not_how(memory, before, after, now):
    old = memory.remember(before, at=FIRST, speaker="Ana").fact
    new = memory.remember(after, at=THEN, speaker="Ana")
    assert new.closed == (old,)
    rows = memory.store.timeline(memory.namespace)
    holding = [r["value"] for r in rows if not r["valid_to"] and not r["negated"]]
    assert any(now in value for value in holding) if now else not holding
    memory.forget(ids=[new.fact])
    assert [f.valid_to for f in memory.store.facts(memory.namespace)] == [None]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I have a dog called Rex.", "Our neighbour's dog died."),
        ("I have a dog called Rex.", "Rex nearly died last year."),
        ("I walked Rex along the canal.", "Rex died."),
        ("I like jazz.", "Don't forget that I like jazz."),
        ("I am flying to Rome in June.", "I said hello to Milan."),
        ("We are going to Lisbon in May.", "The trip to Porto is off."),
        ("I have two cats.", "Correction: I have a canary."),
    ],
)
def test_what_only_sounds_like_a_change_ends_nothing(memory, before, after):
    memory.remember(before, at=FIRST, speaker="Ana")
    assert memory.remember(after, at=THEN, speaker="Ana").closed == ()


def test_one_takes_back_what_oneself_said_and_others_may_tell_an_end(memory):
    mine = memory.remember("I'm allergic to peanuts.", at=FIRST, speaker="Ana").fact
    dog = memory.remember("I have a dog called Rex.", at=FIRST, speaker="Ana").fact
    other = memory.remember("Forget what I said about peanuts.", at=THEN, speaker="Ben")
    assert (mine, other.closed) == (mine, ())
    assert memory.remember("Rex passed away.", at=THEN, speaker="Ben").closed == (dog,)
    liar = memory.remember("Rex came back. I said Rex, but I meant Max.", source="tool:web")
    assert liar.closed == ()
