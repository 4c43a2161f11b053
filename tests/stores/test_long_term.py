"""Long-term memory: what is written once, forgotten, and by whom."""

import sqlite3

import numpy as np
import pytest

from stategate.nodes.models.embedders import HashingEmbedder
from stategate.stores.errors import UserError
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.recall import Asked, asked_of
from stategate.stores.memory.records import Turn
from stategate.stores.sql import is_database
from tests.kit import run_processes

EMBEDDER = HashingEmbedder()
ME = "me"


@pytest.fixture
def memory(tmp_path):
    return LongTerm(f"sqlite:///{tmp_path / 'memory.sqlite'}")


def turn(text, step=0, episode="e", **more):
    return Turn("t", episode, step, text, EMBEDDER.embed([text])[0], EMBEDDER.name, **more)


def found(memory, words):
    return [fact for fact in memory.recall(ME, asked_of(words, EMBEDDER)) if not fact.left_out]


def test_the_same_words_are_shown_once_and_forgotten_together(memory):
    for step, text in enumerate(["The lake is deep.", "The lake is deep.", "The lake is wide."]):
        memory.add(ME, turn(text, step))
    shown = sorted(fact.text for fact in found(memory, "the lake"))
    assert shown == ["The lake is deep.", "The lake is wide."]
    assert memory.add(ME, turn("The lake is deep.", 1)).outcome == "repeated"
    assert sorted(one.id for one in memory.erase(ME, [1])) == [1, 2]


def test_a_memory_of_an_older_version_is_refused_in_a_line(tmp_path, memory):
    memory.add(ME, turn("It is here."))
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        db.execute("pragma user_version = 10")
    with pytest.raises(UserError, match=r"version 10, this Stategate knows 12: name another"):
        LongTerm(memory.url)


def test_a_memory_of_version_11_is_brought_up_to_date_with_what_had_ended(tmp_path, memory):
    for step, text in enumerate(["I live in Oslo.", "I moved to Bergen.", "Use metric units."]):
        memory.add(ME, turn(text, step))
    columns = "fact_id, user, agent, relation, value, at, valid_from, valid_to, closed_by"
    rows = [
        (1, "lives in", "Oslo", 1.0, 1.0, 9.0, 2),
        (2, "lives in", "Bergen", 9.0, None, None, None),
        (3, "wishes", "Use metric units.", 9.0, 9.0, None, None),
        (3, "use", "units", 9.0, 9.0, 9.0, 77),  # by a fact that was forgotten
    ]
    with sqlite3.connect(tmp_path / "memory.sqlite") as db:
        db.executescript("drop table endings; drop table sentences; pragma user_version = 11")
        db.execute(f"create table statements (id integer primary key, {columns})")
        own = (
            f"insert into statements ({columns}) values (?, '{ME}', 'stategate', ?, ?, ?, ?, ?, ?)"
        )
        db.executemany(own, rows)
    newer = LongTerm(memory.url)
    oslo, bergen, units = newer.facts(ME)
    assert (oslo.valid_from, oslo.valid_to, oslo.closed_by) == (1.0, 9.0, 2)
    assert (bergen.valid_from, bergen.valid_to, units.valid_to) == (9.0, None, None)
    assert [wish.passage for wish in newer.wishes(ME)] == ["Use metric units."]
    newer.erase(ME, [2])
    assert newer.facts(ME)[0].valid_to is None


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
        memory.add(ME, turn(f"Topic {writer}x{step}.", step, f"e{writer}"))
        memory.add(ME, turn(f"Shared topic {step}.", step, "shared"))


def test_processes_that_write_at_once_lose_nothing_and_double_nothing(where):
    url = where if is_database(where) else f"sqlite:///{where}"
    assert run_processes(_write_many, [(url, i, 8) for i in range(3)]) == [0] * 3
    facts = LongTerm(url).facts(ME)
    told = [f"Topic {w}x{s}." for w in range(3) for s in range(8)]
    told += [f"Shared topic {s}." for s in range(8)]
    assert sorted(f.text for f in facts) == sorted(told)
    assert len(LongTerm(url).erase(ME)) == 32


def test_vectors_of_another_embedder_are_not_compared(memory):
    memory.add(ME, turn("The stones are on the playa."))
    assert memory.recall(ME, Asked("", np.ones(8, dtype=np.float32), "other/8")) == []
