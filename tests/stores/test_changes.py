"""What people take back and say anew: the old holds until then, and is not lost."""

import pytest

FIRST, THEN, LAST = "2024-01-01", "2024-03-01", "2024-06-01"


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
        ("I work at Siemens.", "I quit my job at Siemens.", "Where do I work?"),
        ("I work for Siemens.", "Since February I work for Bosch instead.", "Who do I work for?"),
        ("I live in Oslo.", "I have moved from Oslo to Bergen.", "Where do I live?"),
        ("My sister lives in Oslo.", "Well, my sister lives in Bergen.", "Where is my sister?"),
        ("My favourite drink is green tea.", "I gave up green tea.", "Which green tea?"),
        ("The meeting is at 3 pm.", "No, the meeting is at 4 pm.", "When is the meeting?"),
        ("I am allergic to nuts.", "I'm not allergic to nuts after all.", "What am I allergic to?"),
        ("I love running.", "I hate running now.", "Do I like running?"),
        ("I'm vegetarian.", "I'm not vegetarian any more.", "Am I vegetarian?"),
        ("I drive a Volvo.", "I sold the Volvo.", "Which Volvo?"),
        ("I am learning Spanish.", "I stopped learning Spanish.", "Am I learning Spanish?"),
    ],
)
def test_what_is_taken_back_or_corrected_holds_until_then(user_memory, before, after, question):
    old = user_memory.remember(before, at=FIRST, speaker="Ana").fact
    new = user_memory.remember(after, at=THEN, speaker="Ana")
    assert new.closed == (old,)
    now = user_memory.recall(question)
    assert now[0].id == new.fact
    assert next(f for f in now if f.id == old).closed_by == new.fact
    assert [f.id for f in user_memory.recall(question, as_of="2024-02-01")] == [old]
    assert old not in [f.id for f in user_memory.recall(question, as_of="2024-04-01")]


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
def test_what_says_something_else_ends_nothing(user_memory, before, after):
    user_memory.remember(before, at=FIRST, speaker="Ana")
    assert user_memory.remember(after, at=THEN, speaker="Ana").closed == ()


def test_what_was_denied_can_be_so_again(user_memory):
    texts = ("I have a dog.", "I don't have a dog any more.", "I have a dog again.")
    first, second, third = (
        user_memory.remember(text, at=at, speaker="Ana")
        for text, at in zip(texts, (FIRST, THEN, LAST), strict=True)
    )
    assert (second.closed, third.closed) == ((first.fact,), (second.fact,))
    holding = {
        f.question: f.valid_to is None for f in user_memory.store.facts(user_memory.namespace)
    }
    assert list(holding.values()) == [False, False, True]


def test_a_correction_closes_the_fact_that_it_speaks_of_and_forgetting_it_opens_that(user_memory):
    for text in ("My sister Lena keeps bees.", "I have a cat."):
        user_memory.remember(text, at=FIRST, thread="a")
    said = user_memory.remember("No, it is my cousin Lena who keeps bees.", at=THEN, thread="a")
    assert said.closed == (1,)
    assert [f.id for f in user_memory.recall("Who keeps bees?")][:2] == [3, 1]
    assert user_memory.recall("Who keeps bees?", as_of="2024-02-01")[0].id == 1
    user_memory.forget(ids=[3])
    assert user_memory.recall("Who keeps bees?")[0].valid_to is None
    lost = user_memory.remember("Sorry, I meant Tuesday.", at=LAST, thread="b")
    assert (lost.closed, lost.reason) == ((), "nothing was found to correct")


def test_a_date_that_is_the_value_is_not_when_it_began_to_hold(user_memory):
    user_memory.remember("My birthday is on 12 May.", at="2024-01-10", speaker="Ana")
    [fact] = user_memory.store.facts(user_memory.namespace)
    assert fact.valid_from < 1_705_000_000  # January, not May
    user_memory.remember("I moved to Oslo last May.", at="2024-01-10", speaker="Ana")
    [_, moved] = user_memory.store.facts(user_memory.namespace)
    assert moved.valid_from < 1_690_000_000


@pytest.mark.parametrize(
    "text",
    [
        "Hello!",
        "Good morning, nice weather today!",
        "Have a nice weekend!",
        "lol",
        "Thanks a lot!",
        "Can you help me?",
        "👍",
    ],
)
def test_small_talk_is_refused_with_a_reason(user_memory, text):
    written = user_memory.remember(text, speaker="Ana")
    assert (written.outcome, written.fact) == ("refused", None)
    assert "small talk" in written.reason
    assert user_memory.store.facts(user_memory.namespace) == []


@pytest.mark.parametrize("text", ["My name is Bo.", "I am 34.", "No, I hate cheese.", "Tomorrow!"])
def test_short_turns_that_tell_something_are_kept(user_memory, text):
    assert user_memory.remember(text, speaker="Ana").outcome == "stored"
