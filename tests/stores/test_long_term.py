"""Long-term memory: what is written once, merged, contradicted, decayed, forgotten, and by whom."""

import json
import multiprocessing
import sqlite3
import threading
from dataclasses import replace

import numpy as np
import pytest

from stategate.nodes.models.embedders import HashingEmbedder
from stategate.stores.errors import UserError
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Namespace, Turn

EMBEDDER = HashingEmbedder()
ME = Namespace("me")
DAY = 86400.0


@pytest.fixture
def memory(tmp_path):
    return LongTerm(f"sqlite:///{tmp_path / 'memory.sqlite'}")


def turn(question, answer, step=0, episode="e", **more):
    rows = EMBEDDER.embed([question, answer])
    return Turn("t", episode, step, question, answer, rows[0], rows[1], EMBEDDER.name, **more)


def found(memory, words, **more):
    return memory.search(ME, EMBEDDER.embed([words])[0], EMBEDDER.name, **more)


def test_a_turn_that_is_written_again_is_written_once(memory):
    assert memory.write(ME, turn("Where is it?", "In Oslo.")) is not None
    assert memory.write(ME, turn("Where is it?", "In Oslo.")) is None
    assert [f.times for f in memory.facts(ME)] == [1]


def test_near_duplicates_are_merged_and_keep_every_turn_they_came_from(memory):
    memory.write(ME, turn("Where is the lake?", "In Cameroon.", 0))
    memory.write(ME, turn("Where is the lake ?", "In Cameroon.", 1))
    (fact,) = memory.facts(ME)
    assert (fact.times, [t["step"] for t in fact.turns]) == (2, [0, 1])
    assert fact.salience > 0.5


def test_a_contradiction_keeps_both_answers_with_their_times(memory):
    memory.write(ME, turn("How deep is the lake?", "It is 208 metres deep.", 0, at=10.0))
    memory.write(ME, turn("How deep is the lake?", "It is 95 metres deep.", 1, at=20.0))
    old, new = memory.facts(ME)
    assert (old.contradicts, new.contradicts) == ((new.id,), (old.id,))
    assert (old.updated, new.updated) == (10.0, 20.0)


def test_near_questions_for_another_thing_are_neither_merged_nor_contradicted(memory):
    memory.write(ME, turn("Who placed the red buoy?", "Carl Holm did.", 0))
    about = "Who placed the red buoy?"
    later = turn("When was that?", "It was in 1923.", 1, about=about)
    same = EMBEDDER.embed([about])[0]
    memory.write(ME, replace(later, vector=same))
    memory.write(ME, turn("Who placed the red buoy?", "Carl Holm did.", 2))
    assert [(f.times, f.contradicts) for f in memory.facts(ME)] == [(2, ()), (1, ())]


def test_facts_are_read_by_relevance_not_by_age(memory):
    memory.write(ME, turn("Which stones move on the playa?", "Heavy stones on thin ice.", 0))
    for step in range(1, 9):
        memory.write(ME, turn(f"Topic number {step}?", f"Something else, {step}.", step))
    best = found(memory, "stones that move on a playa", k=3)[0]
    assert best.question == "Which stones move on the playa?"
    assert best.turns[0]["episode_id"] == "e"


def test_age_takes_no_fact_away_and_decides_only_between_equals(memory):
    memory.write(ME, turn("Where are stones?", "On the playa.", at=0.0, salience=0.5))
    assert found(memory, "stones")[0].answer == "On the playa."
    memory.write(ME, turn("Where is the boat?", "It is by the river.", 1, at=1.0))
    memory.write(ME, turn("Where was the boat?", "It is by the lake.", 2, at=10.0))
    assert found(memory, "stones")[0].answer == "On the playa."


def test_nobody_reads_or_forgets_what_another_user_said(memory):
    memory.write(ME, turn("My door code?", "It is 4711."))
    other = Namespace("other")
    assert memory.search(other, EMBEDDER.embed(["door code"])[0], EMBEDDER.name) == []
    assert memory.forget(other) == 0
    assert len(memory.facts(ME)) == 1


def test_what_is_forgotten_is_nowhere_in_the_database(tmp_path, memory):
    memory.write(ME, turn("Where is Lake Nyos?", "Secret answer by Ada Lovelace in Cameroon."))
    memory.write(ME, turn("Where are sailing stones?", "In California.", 1))
    gone = memory.facts(ME)[0].id
    assert memory.forget(ME, [gone]) == 1
    assert memory.forget(ME, [gone]) == 0
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows = [str(row) for t in tables for row in db.execute(f'SELECT * FROM "{t}"')]
    assert not [row for row in rows if "Secret" in row or "Lovelace" in row or "Nyos" in row]
    assert [f.question for f in memory.facts(ME)] == ["Where are sailing stones?"]


def test_export_and_import_bring_a_memory_elsewhere_once(tmp_path, memory):
    memory.write(ME, turn("Where is it?", "In Oslo.", 0, about="Lake"))
    memory.write(ME, turn("And who?", "Nobody knows.", 1, success=False))
    target = tmp_path / "out.jsonl"
    assert memory.export_turns(ME, target) == 2
    there = LongTerm(f"sqlite:///{tmp_path / 'there.sqlite'}")
    for new in (2, 0):
        assert there.import_turns(ME, target, EMBEDDER.embed, EMBEDDER.name) == new
    ours, theirs = memory.facts(ME), there.facts(ME)
    assert [(f.question, f.answer, f.success, f.updated) for f in ours] == [
        (f.question, f.answer, f.success, f.updated) for f in theirs
    ]


def test_a_damaged_export_is_refused_by_line_and_nothing_is_written(tmp_path, memory):
    memory.write(ME, turn("Where?", "Here."))
    target = tmp_path / "out.jsonl"
    memory.export_turns(ME, target)
    target.write_text(target.read_text() + json.dumps({"question": 3}) + "\n")
    empty = LongTerm(f"sqlite:///{tmp_path / 'empty.sqlite'}")
    with pytest.raises(UserError, match="line 2"):
        empty.import_turns(ME, target, EMBEDDER.embed, EMBEDDER.name)
    assert empty.facts(ME) == []


def test_sql_in_a_question_is_text(memory):
    words = "'); DROP TABLE facts; -- \" OR 1=1 \x00 \ud800 %s {}"
    memory.write(Namespace(words), turn(words, words))
    assert "DROP TABLE facts" in memory.facts(Namespace(words))[0].question
    assert memory.facts(ME) == []


def test_a_database_of_a_newer_version_is_refused(tmp_path, memory):
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        db.execute("pragma user_version = 99")
    with pytest.raises(UserError, match="update it"):
        LongTerm(memory.url)


def test_migrations_bring_an_older_database_up_without_losing_facts(tmp_path, memory):
    memory.write(ME, turn("Where?", "Here."))
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        db.execute("DROP TABLE items")
        db.execute("CREATE TABLE entities (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("INSERT INTO entities (name) VALUES ('Lake Nyos')")
        db.execute("pragma user_version = 0")  # as versions before the seventh left it
    again = LongTerm(memory.url)
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        db.execute("SELECT * FROM items")
        names = "SELECT name FROM sqlite_master WHERE name = 'entities'"
        assert db.execute(names).fetchone() is None
    assert len(again.facts(ME)) == 1


@pytest.mark.parametrize(
    "url", ["mysql://x/y", "sqlite:////proc/none/x.sqlite", "postgresql://127.0.0.1:9/none"]
)
def test_a_memory_that_cannot_be_opened_is_one_line_without_passwords(url):
    with pytest.raises(UserError) as error:
        LongTerm(url)
    assert "\n" not in str(error.value)


def _write_many(url, writer, count):
    memory = LongTerm(url)
    for step in range(count):
        memory.write(
            ME, turn(f"Topic {writer}x{step}?", f"Answer {writer}x{step}.", step, f"e{writer}")
        )
        memory.write(ME, turn("What is shared?", "The same answer.", step, f"shared{writer}"))


def _check_concurrent(url, writers, count):
    facts = LongTerm(url).facts(ME)
    shared = [f for f in facts if f.question == "What is shared?"]
    assert len(shared) == 1  # merged, not doubled
    assert shared[0].times == len(shared[0].turns) == writers * count
    own = sorted(f.question for f in facts if f.question != "What is shared?")
    assert own == sorted(f"Topic {w}x{s}?" for w in range(writers) for s in range(count))


def test_concurrent_processes_lose_nothing_and_duplicate_nothing_in_sqlite(tmp_path):
    url = f"sqlite:///{tmp_path / 'many.sqlite'}"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(url, i, 8)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(90)
    assert [worker.exitcode for worker in workers] == [0] * 3
    _check_concurrent(url, 3, 8)


def test_concurrent_sessions_lose_nothing_and_duplicate_nothing_in_postgresql(postgres):
    workers = [threading.Thread(target=_write_many, args=(postgres, i, 6)) for i in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(90)
    _check_concurrent(postgres, 6, 6)
    gone = LongTerm(postgres).forget(ME)
    assert gone == 37


def test_vectors_of_another_embedder_are_not_compared(memory):
    memory.write(ME, turn("Where are stones?", "On the playa."))
    assert memory.search(ME, np.ones(8, dtype=np.float32), "other/8") == []


def test_a_full_memory_lets_go_what_is_missed_least_and_says_so(memory):
    told = [
        ("Who won?", "Unknown.", {"success": False}),
        ("Where is the key?", "In the pot.", {}),
        ("Where is the key?", "In the pot.", {}),
        ("Who is Bo?", "A smith.", {"salience": 0.6}),
    ]
    for step, (asked, answer, more) in enumerate(told):
        memory.add(ME, turn(asked, answer, step, at=float(step), **more), most=20)
    dropped = []
    for step in range(10, 40):
        words = turn(f"Topic number {step}?", f"It is {step}.", step, at=float(step))
        dropped += memory.add(ME, words, most=20).dropped
    kept = [fact.question for fact in memory.facts(ME)]
    assert len(kept) <= 20
    assert {"Where is the key?", "Who is Bo?", "Topic number 39?"} <= set(kept)
    assert "Who won?" not in kept
    assert len(dropped) == len(set(dropped)) == 33 - len(kept)
    again = LongTerm(memory.url)  # what the database holds is what this process finds
    for words in ("Topic number 39?", "Topic number 12?", "key"):
        assert [f.id for f in found(memory, words)] == [f.id for f in found(again, words)]
