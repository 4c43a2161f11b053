"""Stores that are damaged while they are open: told in one line, or made anew where they can be.

Every column of every table of every store is filled with what does not belong there, one after
another, and what reads the store is called.
"""

import shutil
import sqlite3

import numpy as np
import pytest

from stategate.stores.bank.bank import Entry, Row
from stategate.stores.bank.search import StateBank, TraceBank
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus, prepare, prepared_key
from stategate.stores.corpus.documents import Document
from stategate.stores.document_states import DocumentStates
from stategate.stores.embeddings import EmbeddingCache
from stategate.stores.errors import UserError
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.recall import Asked
from stategate.stores.memory.records import Namespace, Turn
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore

UNIT = np.eye(8, dtype=np.float32)
GARBAGE = ["'garbage'", "'{\"a\": [1'", "x'00ff00'", "x''", "9e999", "-1", "'2024'", "'[]'"]


def bank_of(kind):
    def use(folder):
        bank = kind(folder / "bank", "h/8", create=True)
        if not len(bank.bank):
            words = ("state", "action", "move", "experience", "episode", "question")
            data = {**dict.fromkeys(words, "1"), "plan": ["a"], "reward": 1.0, "correct": True}
            rows = [Entry(Row(f"r{i}", "t", 1.0, data), UNIT[i]) for i in range(6)]
            bank.bank.add(rows, "source")

        def read():
            bank.search(UNIT[0], 3) if kind is StateBank else bank.search(UNIT[:1], 3)
            bank.bank.rows()
            bank.bank.count_use([1], 1.0)
            bank.bank.add([Entry(Row("new", "t", 1.0, {}), UNIT[7])], "other")
            bank.bank.make, len(bank.bank)

        return read

    return use


def cache(folder):
    cache = EmbeddingCache(folder / "embeddings.sqlite", memory_rows=0)
    texts = [f"text {i}" for i in range(8)]

    def read():
        rows = cache.through("h", texts, 8, lambda part: UNIT[[texts.index(t) for t in part]])
        assert np.array_equal(rows, UNIT), "a damaged vector was given out"

    read()
    return read


def states(folder):
    states = DocumentStates(folder / "states")
    states.add("k", {"a": np.ones((2, 3, 4)), "b": np.ones((5,))})

    def read():
        if "k" not in states.missing(["k", "l"]):
            states.get("k")

    return read


def traces(folder):
    store = TraceStore(folder / "traces.sqlite")
    for step in range(3):
        events = [Event("OBS", "page", step), Event("ACT", "act", step)]
        store.write_step(
            "e", step, events, thread_id="t", task={"goal": 1}, reward=0.0, done=step == 2
        )

    def read():
        store.episodes(), store.events("e")
        store.export_jsonl(folder / "out.jsonl")
        store.write_step("e", 3, [Event("ACT", "x", 3)], reward=0.0, done=True)

    return read


def corpus(folder):
    corpus = Corpus("notes", folder / "notes")
    corpus.sync("o", [Document(str(i), "o", "t", f"text {i} of it") for i in range(4)])

    def read():
        chunking = Chunking.parse("fixed-64-10")
        corpus.documents(), corpus.looked("o")
        _, lexical = prepare(corpus, chunking, prepared_key(corpus, chunking))
        lexical.search("text", 3)
        corpus.sync("o", [Document("9", "o", "t", "another")])

    return read


def memory(folder):
    memory = LongTerm(f"sqlite:///{folder / 'memory.sqlite'}")
    for step in range(3):
        turn = Turn("t", "e", step, f"{step} is here", UNIT[step], "h", at=float(step))
        memory.add(Namespace(), turn)

    def read():
        memory.recall(Namespace(), Asked("where is 1?", UNIT[1], "h"))
        memory.facts(Namespace())
        memory.add(Namespace(), Turn("t", "e", 9, "new", UNIT[5], "h", at=9.0))

    return read


LOGS = shutil.ignore_patterns("*-wal", "*-shm")
STORES = {
    "state bank": bank_of(StateBank),
    "trace bank": bank_of(TraceBank),
    "embedding cache": cache,
    "document states": states,
    "traces": traces,
    "corpus": corpus,
    "memory": memory,
}


def database_in(folder):
    (path,) = folder.rglob("*.sqlite")
    return path


def columns_in(path):
    with sqlite3.connect(path) as db:
        query = "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c"
        return db.execute(
            f"{query} where m.type = 'table' and m.name not like 'sqlite%'"
        ).fetchall()


@pytest.mark.parametrize("name", STORES)
def test_a_value_that_does_not_belong_is_told_or_made_anew(tmp_path, name):
    STORES[name](tmp_path / "whole")()
    path = database_in(tmp_path / "whole")
    with sqlite3.connect(path) as db:
        db.execute("pragma wal_checkpoint(truncate)")
    crashes = []
    columns = columns_in(path)
    for number, (table, column) in enumerate(columns[::3] if name == "memory" else columns):
        # Two kinds of garbage a column, others at the next: all eight take a minute.
        for value in (GARBAGE[number % 8], GARBAGE[(number + 3) % 8]):
            shutil.rmtree(tmp_path / "hurt", ignore_errors=True)
            shutil.copytree(tmp_path / "whole", tmp_path / "hurt", ignore=LOGS)
            read = STORES[name](tmp_path / "hurt")
            with sqlite3.connect(database_in(tmp_path / "hurt")) as db:
                try:
                    db.execute(f'update or ignore "{table}" set "{column}" = {value}')
                except sqlite3.Error:
                    continue
            try:
                read()
            except UserError:
                continue
            except Exception as error:
                crashes.append(f"{table}.{column} = {value}: {type(error).__name__}: {error}")
    assert not crashes, "\n".join(crashes[:60])
