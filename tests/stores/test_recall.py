"""What memory does with time and change: dates, statements, what is taken back, small talk."""

from datetime import UTC, datetime

import pytest

from stategate import Memory
from stategate.language.dates import resolved, spans
from stategate.stores.errors import UserError
from stategate.stores.memory import facts
from stategate.stores.memory.recall import Limits
from stategate.stores.memory.statements import extract_statements

SAID = datetime(2023, 5, 25, 13, 14, tzinfo=UTC).timestamp()  # a Thursday


def words(facts):
    return [fact.text for fact in facts]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("yesterday", "2023-05-24"),
        ("last Friday", "2023-05-19"),
        ("every other Thursday", None),
        ("last weekend", "2023-05-20 to 2023-05-21"),
        ("last week", "2023-05-15 to 2023-05-21"),
        ("on 8 May, 2022", "2022-05-08"),
        ("May 8th", "2023-05-08"),
        ("since 2016", "2016"),
        ("the day after tomorrow", "2023-05-27"),
        ("29.02.2024", "2024-02-29"),
        ("on 31.5.", "2023-05-31"),
        ("5/20/2023", "2023-05-20"),
        ("in January", "2023-01"),
        ("My boiler was serviced on 3 September.", "2022-09-03"),
        ("The dinner with Ada is on Monday.", "2023-05-29"),
        ("I was ill. I'll be in Rome in March.", "2024-03"),
        ("On Saturday we were in Rome.", "2023-05-20"),
        ("It has been moved to Sunday.", "2023-05-28"),
        ("Our cat died on Sunday.", "2023-05-21"),
        ("We bought the boat in June.", "2022-06"),
        ("She works nights until Monday.", "2023-05-29"),
        ("She held a room until Monday.", "2023-05-22"),
        ("My oven is old and it broke down on Sunday.", "2023-05-21"),
        ("She may come.", None),
        ("the 31st of Juneau", None),
        ("5/6/2023", None),
    ],
)
def test_times_are_resolved_against_the_day_they_were_said(text, day):
    said = text if text[0].isupper() else f"It happened {text}, I think."
    assert [span.label() for span in spans(said, SAID)] == ([day] if day else [])


def test_a_relative_time_is_shown_with_its_day():
    assert resolved("We met last week.", SAID) == "We met last week (2023-05-15 to 2023-05-21)."


def test_a_turn_states_its_sentences_each_since_its_time():
    text = "I moved to Oslo last week. My sister is a nurse. Do you live in Oslo? Thanks!"
    moved, sister = extract_statements(text, "Ana", SAID)
    assert (moved.text, sister.text) == ("I moved to Oslo last week.", "My sister is a nurse.")
    assert datetime.fromtimestamp(moved.since, UTC).day == 15
    assert sister.since == SAID
    [wish] = extract_statements("Always answer in metric units.", "Ana", SAID)
    assert wish.is_wish
    assert not any(one.is_wish for one in extract_statements(wish.text, "assistant", SAID))


def test_two_long_turns_are_read_by_the_sentences_that_share_words(user_memory, monkeypatch):
    read = []
    monkeypatch.setattr(
        facts, "end_chances", lambda pairs: read.extend(pairs) or [0.0] * len(pairs)
    )
    for colour in ("red", "blue"):
        walls = " ".join(f"The wall of room number {i} is {colour}." for i in range(30))
        user_memory.remember(walls, at=FIRST, speaker="Ana")
    assert len(read) == 64
    assert ("The wall of room number 7 is red.", "The wall of room number 7 is blue.") in read


def test_every_candidate_says_why_it_was_left_out(user_memory):
    user_memory.remember("The boat is called Pelican.", at="2024-01-01")
    heron = "The boat is called Heron, says the web."
    user_memory.remember(heron, at="2024-01-02", source="tool:web")
    user_memory.remember("The boat has a long mast and needs paint.", at="2024-01-03")
    user_memory.remember("The boat was sold.", at="2024-01-04")
    limits, question = Limits(facts=2, min_trust=0.5), "What is the boat called?"
    found = user_memory.explain(question, as_of="2024-01-03", limits=limits)
    reasons = {fact.text.split()[-1]: fact.left_out.partition(":")[0] for fact in found}
    assert reasons == {"Pelican.": "", "web.": "trust", "paint.": "", "sold.": "later"}
    assert set(found[0].signals) >= {"words", "meaning", "beside", "speaker", "when", "age"}
    assert len([fact for fact in found if not fact.left_out]) == 2


def test_a_turn_is_found_by_the_turn_it_replies_to(user_memory):
    rows = [
        {"text": "What did you call the new kitten?", "speaker": "Bo", "thread": "t", "at": 1.0},
        {"text": "Marmalade, after the jam.", "speaker": "Ana", "thread": "t", "at": 2.0},
    ]
    walls = [f"We painted wall number {i} grey." for i in range(20)]
    rows += [{"text": wall, "speaker": "Ana", "thread": wall} for wall in walls]
    user_memory.remember_all(rows)
    found = words(user_memory.recall("What is Ana's kitten called?"))
    assert "Marmalade, after the jam." in found[:2]


def test_odd_texts_are_kept_and_recalled(user_memory):
    quoted = "\x00\ud800 'quoted' %s {}"
    for text in ("x" * 50_000, "I live in " * 5_000, quoted, "我住在奥斯陆。", "¿Dónde?"):
        assert user_memory.remember(text, speaker=" ").outcome in ("stored", "refused")
    assert user_memory.recall("I live in") != []
    assert user_memory.recall("") == user_memory.recall("?") == []  # nothing is asked
    with pytest.raises(UserError, match="from 0 to 1"):
        user_memory.recall("I live in", at_least=2)
    assert user_memory.recall("何処 ' %s", as_of="1970-01-01") == []


def test_what_a_document_says_stands_behind_what_the_user_said_of_the_same(user_memory):
    user_memory.remember("I live in Paris.", source="document:letter", at="2024-03-05")
    user_memory.remember("I live in Oslo.", at="2024-03-05")
    found = user_memory.recall("Where do I live?")
    assert [fact.source for fact in found] == ["user", "document:letter"]


FIRST, THEN, LAST = "2024-01-01", "2024-03-01", "2024-06-01"


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        ("My favourite drink is tea.", "My favourite drink is coffee.", "What is my drink?"),
        ("I have a dog.", "I don't have a dog any more.", "Do I have a dog?"),
        ("I work at Siemens.", "I quit my job at Siemens.", "Where do I work?"),
        ("I work for Siemens.", "Since February I work for Bosch instead.", "Who do I work for?"),
        ("My sister lives in Oslo.", "Well, my sister lives in Bergen.", "Where is my sister?"),
        ("My favourite drink is green tea.", "I gave up green tea.", "Which green tea?"),
        ("The meeting is at 3 pm.", "No, the meeting is at 4 pm.", "When is the meeting?"),
        ("I am allergic to nuts.", "I'm not allergic to nuts after all.", "What am I allergic to?"),
        ("I drive a Volvo.", "I sold the Volvo.", "Which Volvo?"),
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
        ("I live in Oslo.", "I worked in Bergen."),
        ("I have a dog.", "My sister doesn't have a dog."),
        ("I drive a Volvo.", "I sold the piano."),
        ("My favourite drink is tea.", "My favourite colour is teal."),
        ("I live in Oslo, and my sister is a nurse.", "I live in Bergen now."),
    ],
)
def test_what_says_something_else_ends_nothing(user_memory, before, after):
    user_memory.remember(before, at=FIRST, speaker="Ana")
    assert user_memory.remember(after, at=THEN, speaker="Ana").closed == ()


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
    user_memory.remember("I stole a charger.", at=LAST, thread="b")
    # Read as a correction, but of nothing that was said.
    assert not user_memory.remember("omg Mr Harding is leaving", at=LAST, thread="b").closed
    assert user_memory.remember("Sorry, I meant two.", at=LAST, thread="b").closed


@pytest.mark.parametrize("echo", [{"source": "agent"}, {"speaker": "assistant"}])
def test_a_correction_ends_what_the_user_said_not_only_its_echo(user_memory, echo):
    said = {"thread": "t", "at": FIRST}
    user_memory.remember("I have an appointment at the notary on Thursday at ten.", **said)
    user_memory.remember("Noted: notary on Thursday at ten.", **said, **echo)
    fixed = user_memory.remember("Sorry, I meant Friday at ten, not Thursday.", **said)
    assert 1 in fixed.closed


@pytest.mark.parametrize(
    ("before", "after", "ended"),
    [
        ("The meeting is in room 4. It starts at ten.", "Sorry, at eleven.", "It starts at ten."),
        ("My vet is Dr Lindt. She is in Bern.", "It's Lindh, not Lindt.", "My vet is Dr Lindt."),
    ],
)
def test_a_correction_ends_the_sentence_that_it_corrects(user_memory, before, after, ended):
    user_memory.remember(before, at=FIRST, thread="t")
    assert user_memory.remember(after, at=FIRST, thread="t").closed
    [fact, _] = user_memory.store.facts(user_memory.user)
    assert [text for _, text, _ in fact.ended] == [ended]


def test_a_correction_of_what_another_said_leaves_its_speakers_last_words(user_memory):
    talk = {"at": FIRST, "thread": "t"}
    user_memory.remember("The party starts at eight.", speaker="Ana", **talk)
    user_memory.remember("Great, I bring wine.", speaker="Tom", **talk)
    fixed = user_memory.remember("No, Ana, the party starts at seven.", speaker="Tom", **talk)
    assert fixed.closed == (1,)


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        ("Call me Mo.", "Don't call me Mo any more, call me Mr. Haddad.", "What is my name?"),
        ("I'm engaged to Lars.", "Lars and I broke up.", "Who is my fiancé?"),
        ("I live in Tromsø.", "I moved to Ålesund.", "Where do I live?"),
    ],
)
def test_what_ended_a_fact_is_as_likely_to_answer_and_comes_first(
    tmp_path, before, after, question
):
    memory = Memory(str(tmp_path / "memory.sqlite"), user="ana")
    memory.remember_all([{"text": before, "at": FIRST}, {"text": after, "at": THEN}])
    assert words(memory.recall(question, at_least=0.5)) == [after, before]


def test_a_date_that_is_the_value_is_not_when_it_began_to_hold(user_memory):
    user_memory.remember("My birthday is on 12 May.", at="2024-01-10", speaker="Ana")
    [fact] = user_memory.store.facts(user_memory.user)
    assert fact.valid_from < 1_705_000_000  # January, not May
    user_memory.remember("I moved to Oslo last May.", at="2024-01-10", speaker="Ana")
    [_, moved] = user_memory.store.facts(user_memory.user)
    assert moved.valid_from < 1_690_000_000


def test_a_keyword_is_no_merit_of_the_note_beside_it(user_memory):
    notes = ["Gym: 29 euros a month.", "Shoe size 43, from this month."]
    user_memory.remember_all([{"text": text, "thread": "notes"} for text in notes])
    gym, shoe = user_memory.recall("gym month")
    assert (gym.text, gym.support > 0.5, shoe.support < 0.5) == (notes[0], True, True)


@pytest.mark.parametrize(
    "text",
    ["Good morning, nice weather today!", "Can you help me?", "👍", "y", "thanks, that helps"],
)
def test_small_talk_is_refused_with_a_reason(user_memory, text):
    written = user_memory.remember(text, speaker="Ana")
    assert (written.outcome, written.fact) == ("refused", None)
    assert "small talk" in written.reason


def test_a_wish_to_forget_is_no_fact_but_names_what_carries_it_out(user_memory):
    user_memory.remember("My dentist is Dr Wu.", speaker="Ana")
    written = user_memory.remember("Please forget my dentist.", speaker="Ana")
    assert (written.outcome, "memory forget" in written.reason) == ("refused", True)
    both = user_memory.remember("Please forget my dentist. I live in Oslo.", speaker="Ana")
    assert both.outcome == "stored"
    one = user_memory.remember("Forget my old number, my new one is 085 555.", speaker="Ana")
    assert "memory forget" in one.reason
    assert user_memory.store.facts(user_memory.user)[-1].text == "my new one is 085 555."
    for text in ("My PIN is 9921. Please don't remember that.", "Don't save this, my PIN is 9921."):
        assert user_memory.remember(text, speaker="Ana").outcome == "refused"


@pytest.mark.parametrize(
    "text", ["I am 34.", "No, I hate cheese.", "Tomorrow!", "No, sorry, they're five now."]
)
def test_short_turns_that_tell_something_are_kept(user_memory, text):
    assert user_memory.remember(text, speaker="Ana").outcome == "stored"


def test_of_a_long_text_all_is_kept_but_what_wishes_to_forget(user_memory):
    lines = [f"Locker {n} is Ana's." for n in range(60)]
    user_memory.remember(" ".join(["Forget my dentist.", *lines]))
    assert user_memory.store.facts(user_memory.user)[0].text == " ".join(lines)
