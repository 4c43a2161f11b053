"""Long-term memory: what is written once, merged, forgotten, exported, and by whom."""

import sqlite3

import numpy as np
import pytest

from stategate.nodes.models.embedders import HashingEmbedder
from stategate.stores.errors import UserError
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.recall import Asked, asked_of
from stategate.stores.memory.records import Namespace, Turn
from tests.kit import run_processes

EMBEDDER = HashingEmbedder()
ME = Namespace("me")


@pytest.fixture
def memory(tmp_path):
    return LongTerm(f"sqlite:///{tmp_path / 'memory.sqlite'}")


def turn(question, answer, step=0, episode="e", **more):
    rows = EMBEDDER.embed([question, answer])
    return Turn("t", episode, step, question, answer, rows[0], rows[1], EMBEDDER.name, **more)


def found(memory, words, user=ME):
    return memory.recall(user, asked_of(words, EMBEDDER))[0]


def test_turns_of_the_same_words_are_one_fact_and_keep_every_turn_they_came_from(memory):
    memory.add(ME, turn("Where is the lake?", "In Cameroon.", 0))
    memory.add(ME, turn("where is the lake ?", "In Cameroon!", 1))
    memory.add(ME, turn("Where is the lake?", "In Kenya.", 2))
    fact, other = memory.facts(ME)
    assert (fact.times, [t["step"] for t in fact.turns]) == (2, [0, 1])
    assert other.answer == "In Kenya."


def test_nobody_reads_or_forgets_what_another_user_said(memory):
    memory.add(ME, turn("My door code?", "It is 4711."))
    other = Namespace("other")
    assert found(memory, "door code", other) == []
    assert not memory.erase(other)
    assert len(memory.facts(ME)) == 1


def test_what_is_forgotten_is_nowhere_in_the_database(tmp_path, memory):
    memory.add(ME, turn("Where is Lake Nyos?", "Secret answer by Ada Lovelace in Cameroon."))
    memory.add(ME, turn("Where are sailing stones?", "In California.", 1))
    gone = memory.facts(ME)[0].id
    assert memory.erase(ME, [gone]).facts == (gone,)
    assert not memory.erase(ME, [gone])
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows = [str(row) for t in tables for row in db.execute(f'SELECT * FROM "{t}"')]
    assert not [row for row in rows if "Secret" in row or "Lovelace" in row or "Nyos" in row]
    assert [f.question for f in memory.facts(ME)] == ["Where are sailing stones?"]


def test_sql_in_a_question_is_text(memory):
    words = "'); DROP TABLE facts; -- \" OR 1=1 \x00 \ud800 %s {}"
    memory.add(Namespace(words), turn(words, words))
    assert "DROP TABLE facts" in memory.facts(Namespace(words))[0].question
    assert memory.facts(ME) == []


def test_migrations_bring_an_older_database_up_without_losing_facts(tmp_path, memory):
    memory.add(ME, turn("Where?", "Here."))
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
        memory.add(
            ME, turn(f"Topic {writer}x{step}?", f"Answer {writer}x{step}.", step, f"e{writer}")
        )
        memory.add(ME, turn("What is shared?", "The same answer.", step, f"shared{writer}"))


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_processes_that_write_at_once_lose_nothing_and_double_nothing(place, tmp_path, request):
    url = f"sqlite:///{tmp_path / 'many.sqlite'}"
    url = request.getfixturevalue("postgres") if place == "postgres" else url
    assert run_processes(_write_many, [(url, i, 8) for i in range(3)]) == [0] * 3
    facts = LongTerm(url).facts(ME)
    [shared] = [f for f in facts if f.question == "What is shared?"]  # merged, not doubled
    assert shared.times == len(shared.turns) == 24
    own = sorted(f.question for f in facts if f != shared)
    assert own == sorted(f"Topic {w}x{s}?" for w in range(3) for s in range(8))
    assert len(LongTerm(url).erase(ME).facts) == 25


def test_vectors_of_another_embedder_are_not_compared(memory):
    memory.add(ME, turn("Where are stones?", "On the playa."))
    assert memory.recall(ME, Asked("", np.ones(8, dtype=np.float32), "other/8")) == ([], [])
