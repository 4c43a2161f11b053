"""What memory does with time and change: dates, statements, closing, trust, reasons, small talk."""

from datetime import UTC, datetime

import pytest

from stategate.language.dates import resolved, spans
from stategate.nodes.retrieval.remember import seconds
from stategate.stores.memory.extraction import extract_statements
from stategate.stores.memory.recall import Limits

SAID = datetime(2023, 5, 25, 13, 14, tzinfo=UTC).timestamp()  # a Thursday


def words(facts):
    return [fact.question for fact in facts]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("yesterday", "2023-05-24"),
        ("last Friday", "2023-05-19"),
        ("two weeks ago", "2023-05-11"),
        ("last weekend", "2023-05-20 to 2023-05-21"),
        ("last week", "2023-05-15 to 2023-05-21"),
        ("last year", "2022"),
        ("on 8 May, 2022", "2022-05-08"),
        ("May 8th", "2023-05-08"),
        ("since 2016", "2016"),
        ("the day after tomorrow", "2023-05-27"),
        ("29.02.2024", "2024-02-29"),
        ("on 31.5.", "2023-05-31"),
        ("5/20/2023", "2023-05-20"),
        ("next Tuesday", "2023-05-30"),
        ("in January", "2023-01"),
    ],
)
def test_times_are_resolved_against_the_day_they_were_said(text, day):
    [span] = spans(f"It happened {text}, I think.", SAID)
    assert span.label() == day


@pytest.mark.parametrize(
    "text",
    [
        "She may come.",
        "I march on.",
        "the 31st of Juneau",
        "a second one",
        "5/6/2023",
        "30.02.2024",
    ],
)
def test_what_is_no_time_is_none(text):
    assert spans(text, SAID) == []


def test_a_relative_time_is_shown_with_its_day():
    assert resolved("We met last week.", SAID) == "We met last week (2023-05-15 to 2023-05-21)."


def test_statements_know_states_denials_and_times():
    text = "I moved to Oslo last week, and my sister is a nurse."
    [moved, sister] = extract_statements(text, "Ana", SAID)
    assert (moved.subject, moved.relation, moved.value, moved.is_state) == (
        "Ana",
        "lives in",
        "Oslo",
        True,
    )
    assert datetime.fromtimestamp(moved.valid_from, UTC).day == 15
    assert (sister.relation, sister.value) == ("sister", "a nurse")
    [denied] = extract_statements("I don't eat meat any more.", "Ana", SAID)
    assert denied.negated
    assert denied.value == "meat"
    assert extract_statements("Do you live in Oslo?", "Ana", SAID) == []


def test_what_holds_since_a_day_has_no_end_and_what_holds_until_one_no_beginning():
    [since] = extract_statements("Since last week I take ten drops a day.", "Ana", SAID)
    [until] = extract_statements("I am in Rome until 3 June.", "Ana", SAID)
    assert (since.valid_from is not None, since.valid_to) == (True, None)
    assert (until.valid_from, until.valid_to is not None) == (None, True)


def test_turns_that_are_written_late_do_not_close_what_came_after(user_memory):
    user_memory.remember("I live in Bergen.", at="2024-06-01", speaker="Ana")
    user_memory.remember("I live in Oslo.", at="2024-01-01", speaker="Ana")
    facts = {fact.question: fact for fact in user_memory.recall("Where does Ana live?")}
    assert facts["I live in Bergen."].valid_to is None
    assert facts["I live in Oslo."].valid_to == seconds("2024-06-01")


def test_every_candidate_says_why_it_was_left_out(user_memory):
    user_memory.remember("The boat is called Pelican.", at="2024-01-01")
    heron = "The boat is called Heron, says the web."
    user_memory.remember(heron, at="2024-01-02", source="tool:web")
    user_memory.remember("The boat has a long mast and needs paint.", at="2024-01-03")
    user_memory.remember("The boat was sold.", at="2024-01-04")
    limits, question = Limits(facts=2, min_trust=0.5), "What is the boat called?"
    facts, candidates = user_memory.explain(question, as_of="2024-01-03", limits=limits)
    reasons = {c.text.split()[-1]: c.left_out.partition(":")[0] for c in candidates}
    assert reasons == {"Pelican.": "", "web.": "trust", "paint.": "", "sold.": "later"}
    _, candidates = user_memory.explain(question, limits=Limits(facts=9, tokens=20))
    assert [c for c in candidates if c.left_out.startswith("budget")]
    assert set(candidates[0].signals) >= {"words", "meaning", "beside", "speaker", "when", "age"}
    assert len(facts) == 2


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
    user_memory.recall("")  # nothing is asked: nothing breaks
    assert user_memory.recall("何処 ' %s", as_of="1970-01-01") == []


def test_what_a_document_says_stands_behind_what_the_user_said_of_the_same(user_memory):
    user_memory.remember("I live in Paris.", source="document:letter", at="2024-03-05")
    user_memory.remember("I live in Oslo.", at="2024-03-05")
    found = user_memory.recall("Where do I live?")
    assert [fact.source for fact in found] == ["user", "document:letter"]


def test_nothing_likely_is_nothing(user_memory):
    user_memory.remember("My cat Tom is afraid of thunder.")
    user_memory.remember("I work as a nurse at the city hospital.")
    assert user_memory.recall("Where do I work as a nurse?", at_least=0.5)
    assert user_memory.recall("Which car do I drive?", at_least=0.5) == []


def test_a_later_move_ends_where_one_lived_though_it_began_earlier(user_memory):
    user_memory.remember("I live in Oslo.", at="2024-03-05T10:00")
    user_memory.remember("I moved to Bergen last month.", at="2024-03-05T12:00")
    first, second = user_memory.recall("Where do I live?")
    assert "Bergen" in first.question
    assert second.closed_by == first.id
