"""Forgetting: what is erased is in no store, and what others told stays."""

import json
import logging
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from stategate import Memory
from stategate.graph.checkpoints import open_saver
from stategate.graph.forgetting import forget_everywhere, traces_left
from stategate.nodes.models.embedders import HashingEmbedder
from stategate.stores.bank import Bank, Row
from stategate.stores.embeddings import embedding_cache
from stategate.stores.errors import UserError
from stategate.stores.home import cache
from stategate.stores.home import home as home_folder
from stategate.stores.memory import schema as tables
from stategate.stores.sql import is_database
from stategate.stores.trace_store import TraceStore
from stategate.stores.traces import Event
from tests.kit import call, refused
from tests.postgres_server import is_in_database

SECRET = "The door code of the cellar is 4711-Zebra."


@pytest.fixture
def memory(home, user_memory):
    return user_memory


def write_turn(traces, saver, thread, text, kind="OBS", episode="", **more):
    """Write a step of ``thread`` and a checkpoint, which both hold ``text``."""
    traces.write_step(
        episode or f"of {thread}", 0, [Event(kind, text, 0)], thread_id=thread, **more
    )
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saver.put(config, {**empty_checkpoint(), "channel_values": {"said": text}}, {}, {"said": 1})


@pytest.fixture
def places(where, tmp_path, memory):
    """Return stores that all hold the secret of episode e1, thread t1, and something of e2, t2."""
    is_shared = is_database(where)
    trace_place = where if is_shared else tmp_path / "traces.sqlite"
    traces = TraceStore(trace_place)
    bank_place = f"{where}#b" if is_shared else tmp_path / "bank"
    saver = open_saver(where)
    for episode, thread, text in (("e1", "t1", SECRET), ("e2", "t2", "The sky is blue.")):
        memory.remember_all([{"text": text, "thread": thread, "id": episode, "speaker": "Ana"}])
        write_turn(traces, saver, thread, text, episode=episode, instruction=text)
    saver.conn.close()
    bank = Bank(bank_place, "state", None, create=True)
    rows = [Row("a", "x", 1.0, {"said": SECRET}), Row("b", "x", 1.0, {"said": "The sky is blue."})]
    bank.add([(row, None) for row in rows])
    bank.close()
    embedding_cache().put("m", [SECRET], np.ones((1, 3), np.float32))
    return {"traces": trace_place, "checkpoints": where, "banks": [bank_place]}


def holding(text, memory, places):
    """Return every file and database of the stores that holds ``text``, byte by byte."""
    files = [Path(memory.store.url), embedding_cache().path]
    if not is_database(places["traces"]):
        files += [
            Path(places["traces"]),
            Path(places["checkpoints"]),
            places["banks"][0] / "bank.sqlite",
        ]
    files = [Path(f"{path}{end}") for path in files for end in ("", "-wal", "-journal")]
    forms = [text.encode(), json.dumps(text)[1:-1].encode()]
    held = [p for p in files if p.exists() and any(form in p.read_bytes() for form in forms)]
    if is_database(places["traces"]) and is_in_database(places["traces"], forms):
        held.append(Path(places["traces"]))
    return held


@pytest.mark.parametrize("named", ["ids", "thread", "user"])
def test_what_is_forgotten_is_in_no_store_and_the_rest_stays(memory, places, named):
    assert len(holding(SECRET, memory, places)) >= 2
    fact = next(f for f in memory.store.facts(memory.user) if "4711" in f.text)
    how = {"ids": {"ids": [fact.id]}, "thread": {"thread": "t1"}, "user": {}}[named]
    counts = forget_everywhere(memory.store, memory.user, **places, **how)
    assert holding("4711-Zebra", memory, places) == []
    assert embedding_cache().get("m", [SECRET]) == {}
    expected = {"trace steps": 1, "checkpoints": 1, "bank rows": 1, "cached vectors": 1}
    if named != "user":
        assert expected.items() <= counts.items()
        assert holding("The sky is blue.", memory, places)
        assert [f.text for f in memory.store.facts(memory.user)] == ["The sky is blue."]


def test_of_a_chain_of_changes_the_next_one_closes_what_is_opened_again(memory):
    for at, text in (("2024-01-01", "I live in Oslo."), ("2024-09-01", "I moved to Rome.")):
        memory.remember(text, at=at, speaker="Ana")
    middle = memory.remember("I moved to Bergen.", at="2024-06-01", speaker="Ana").fact
    memory.forget(ids=[middle])
    of = {f.text: f for f in memory.store.facts(memory.user)}
    old, new = of["I live in Oslo."], of["I moved to Rome."]
    assert (old.closed_by, new.valid_to) == (new.id, None)
    found = memory.recall("Where does Ana live?", as_of="2024-07-01")
    assert [f.text for f in found] == ["I live in Oslo."]
    memory.forget(ids=[new.id])
    assert [f.valid_to for f in memory.store.facts(memory.user)] == [None]


def test_a_long_memory_is_forgotten_whole(memory):
    with memory.store.db.write() as db:
        own = {"user": "ana", "agent": "stategate", "thread_id": "t", "step": 0, "about": ""}
        own |= {"at": 1.0, "speaker": "", "source": "user", "trust": 1.0, "embedder": "h"}
        rows = [
            {**own, "episode_id": f"e{i}", "text": f"said {i}", "vector": b"", "dimension": 0}
            for i in range(33_000)
        ]
        db.execute(tables.facts.insert(), rows)
    assert memory.forget() == 33_000
    assert memory.store.facts(memory.user) == []


def test_copies_of_a_thread_are_cleared_and_who_said_the_same_keeps_it(memory, places, tmp_path):
    other = Memory(str(tmp_path / "memory.sqlite"), embedder=HashingEmbedder(), user="bo")
    other.remember_all([{"text": SECRET, "thread": "bos", "id": "e7"}])
    memory.remember_all([{"text": SECRET, "thread": "again", "id": "e8"}])
    traces, saver = TraceStore(places["traces"]), open_saver(places["checkpoints"])
    for thread in ("copy", "bos"):  # a fork of t1, and another user's own words
        write_turn(traces, saver, thread, SECRET)
    for thread in ("t2", "again"):  # answers, where the user did not say it and where they did
        write_turn(traces, saver, thread, SECRET, "ACT")
    write_turn(traces, saver, "t3", "The sky is blue.")
    with pytest.raises(UserError, match="thread 'never': there is again, t1"):
        memory.forget(thread="never")
    counts = forget_everywhere(memory.store, memory.user, thread="t1", **places)
    assert (counts["trace steps"], counts["checkpoints"], counts["threads"]) == (3, 4, 3)
    left = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
    assert left == {"bos", "again", "t3"}
    assert {e for e, _, _ in traces.steps_with([SECRET])} == {"of bos", "of again"}
    assert len(other.store.facts(other.user)) == 1


SAID = "My dentist is Dr. Wu of Graz, whom I dread."


@pytest.fixture
def rare(home):
    rare = Memory(user="somebody-rare")
    rare.remember(SAID)
    return rare


def test_a_forgotten_text_its_vector_and_its_user_are_nowhere(rare):
    places = [*{home_folder(), cache()}]
    left = traces_left(SAID, places)
    assert any("as text" in place for place in left)
    assert any("its vector" in place for place in left)
    forget_everywhere(rare.store, rare.user)
    assert traces_left(SAID, places) == []
    assert traces_left("somebody-rare", places) == []
    rare.remember("I sail.")  # a reader of before sees the new fact
    assert [fact.text for fact in rare.recall("What do I do on the sea?")] == ["I sail."]


def test_a_log_that_another_program_reads_is_named(rare, caplog):
    reader = sqlite3.connect(cache() / "embeddings.sqlite")
    reader.execute("begin")
    reader.execute("select count(*) from embeddings").fetchone()
    with caplog.at_level(logging.WARNING):
        forget_everywhere(rare.store, rare.user)
    assert "another program has" in caplog.text
    assert traces_left(SAID, [cache()])
    reader.close()


def test_the_command_says_where_it_is_or_that_nothing_is_left(rare):
    for said in (SAID, SAID.upper()):
        assert "long_term.sqlite" in refused("memory", "prove-forgotten", said)
    call("memory", "forget", "--all", "--user", "somebody-rare")
    assert "not a byte of it is left" in call("memory", "prove-forgotten", SAID)
