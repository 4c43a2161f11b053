"""Forgetting: what is erased is in no store, what was derived goes too, what others told stays."""

import json
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from langgraph.checkpoint.base import empty_checkpoint

from stategate.graph.checkpoints import open_saver
from stategate.graph.forgetting import Places, forget_everywhere
from stategate.nodes.models.embedders import HashingEmbedder
from stategate.nodes.retrieval.remember import Memory
from stategate.stores.bank.bank import Bank, Entry, Row
from stategate.stores.embeddings import embedding_cache
from stategate.stores.memory import schema as tables
from stategate.stores.memory.records import Namespace, Turn
from stategate.stores.sql import is_database
from stategate.stores.traces import Event
from stategate.stores.traces.store import TraceStore
from tests.postgres_server import tables_holding

SECRET = "The door code of the cellar is 4711-Zebra."


@pytest.fixture
def memory(home, user_memory):
    return user_memory


def turn(question, answer="", episode="e", **more):
    vector = HashingEmbedder().embed([question])[0]
    return Turn("t", episode, 0, question, answer, vector, None, "hashing/256", **more)


@pytest.fixture(params=["files", "postgres"])
def places(request, tmp_path, memory):
    """Return stores that all hold the secret of episode e1, thread t1, and something of e2, t2."""
    where, bank_place = str(tmp_path / "checkpoints.sqlite"), tmp_path / "bank"
    traces = TraceStore(tmp_path / "traces.sqlite")
    if request.param == "postgres":
        where = request.getfixturevalue("own_database")()
        bank_place, traces = f"{where}#b", TraceStore(where)
    for episode, thread, text in (("e1", "t1", SECRET), ("e2", "t2", "The sky is blue.")):
        memory.remember_all([{"text": text, "thread": thread, "id": episode, "speaker": "Ana"}])
        traces.write_step(episode, 0, [Event("OBS", text, 0)], thread_id=thread, instruction=text)
        saver = open_saver(where)
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        checkpoint = {**empty_checkpoint(), "channel_values": {"events": text}}
        saver.put(config, checkpoint, {}, {"events": 1})
        saver.conn.close()
    bank = Bank(bank_place, "state", None, create=True)
    rows = [Row("a", "x", 1.0, {"said": SECRET}), Row("b", "x", 1.0, {"said": "The sky is blue."})]
    bank.add([Entry(row) for row in rows])
    bank.close()
    embedding_cache().put("m", [SECRET], np.ones((1, 3), np.float32))
    return Places(traces.place, where, (bank_place,))


def holding(text, memory, places):
    """Return every file and table of the stores that holds ``text``, byte by byte."""
    files = [Path(memory.store.url), embedding_cache().path]
    if not is_database(places.traces):
        files += [Path(places.traces), Path(places.checkpoints), places.banks[0] / "bank.sqlite"]
    files = [Path(f"{path}{end}") for path in files for end in ("", "-wal", "-journal")]
    forms = [text.encode(), json.dumps(text)[1:-1].encode()]
    held = [p for p in files if p.exists() and any(form in p.read_bytes() for form in forms)]
    return held + (tables_holding(places.traces, forms) if is_database(places.traces) else [])


@pytest.mark.parametrize("named", ["ids", "thread", "user"])
def test_what_is_forgotten_is_in_no_store_and_the_rest_stays(memory, places, named):
    assert len(holding(SECRET, memory, places)) >= 2
    fact = next(f for f in memory.store.facts(memory.namespace) if "4711" in f.question)
    how = {"ids": {"ids": [fact.id]}, "thread": {"thread": "t1"}, "user": {}}[named]
    counts = forget_everywhere(memory.store, memory.namespace, places=places, **how)
    assert holding("4711-Zebra", memory, places) == []
    assert embedding_cache().get("m", [SECRET]) == {}
    expected = {"trace steps": 1, "checkpoints": 1, "bank rows": 1, "cached vectors": 1}
    if named != "user":
        assert expected.items() <= counts.items()
        assert holding("The sky is blue.", memory, places)
        assert [f.question for f in memory.store.facts(memory.namespace)] == ["The sky is blue."]


def test_what_was_made_from_a_fact_goes_with_it_and_is_trusted_no_more(memory):
    base = memory.remember("The web says the mill is haunted.", source="tool:web").fact
    yes = turn("Is it haunted?", "Yes, it is.", source="agent", lineage=(base,))
    derived = memory.store.add(Namespace("ana"), yes).fact
    [fact] = [f for f in memory.store.facts(memory.namespace) if f.id == derived]
    assert fact.trust == pytest.approx(0.2)
    assert memory.forget(ids=[base]) == 2
    assert memory.store.facts(memory.namespace) == []


def test_a_merged_fact_is_trusted_by_what_is_left_and_has_its_words(memory):
    rows = [
        {"text": "The well is deep.", "at": 1.0, "thread": "t1"},
        {"text": "The well is deep!", "at": 2.0, "thread": "t2", "source": "agent"},
    ]
    assert [w.outcome for w in memory.remember_all(rows)] == ["stored", "merged"]
    [fact] = memory.recall("How deep is the well?")
    assert [t["thread_id"] for t in fact.turns] == ["t1", "t2"]
    assert (fact.trust, fact.times) == (pytest.approx(0.6), 2)
    assert memory.forget(source="agent") == 0
    [fact] = memory.recall("How deep is the well?")
    assert (fact.trust, fact.times, fact.source) == (1.0, 1, "user")
    memory.remember_all([rows[1]])
    assert memory.forget(source="user") == 0
    [fact] = memory.recall("How deep is the well?")
    assert (fact.question, fact.source) == ("The well is deep!", "agent")
    assert fact.score > 0.5  # embedded again, in the words that stay


def test_what_was_told_in_other_turns_too_survives_the_fact_that_one_was_made_from(memory):
    base = memory.remember("The web says the mill burns.", source="tool:web").fact
    for episode, lineage in (("e1", (base,)), ("e2", ())):
        told = turn("The mill burns.", "", episode, source="tool:web", lineage=lineage)
        memory.store.add(memory.namespace, told)
    assert memory.forget(ids=[base]) == 1
    [fact] = memory.store.facts(memory.namespace)
    assert ([t["episode_id"] for t in fact.turns], fact.times) == (["e2"], 1)


def test_of_a_chain_of_changes_the_next_one_closes_what_is_opened_again(memory):
    for at, text in (("2024-01-01", "I live in Oslo."), ("2024-09-01", "I moved to Rome.")):
        memory.remember(text, at=at, speaker="Ana")
    middle = memory.remember("I moved to Bergen.", at="2024-06-01", speaker="Ana").fact
    memory.forget(ids=[middle])
    of = {f.question: f for f in memory.store.facts(memory.namespace)}
    old, new = of["I live in Oslo."], of["I moved to Rome."]
    assert (old.closed_by, new.valid_to) == (new.id, None)
    found = memory.recall("Where does Ana live?", as_of="2024-07-01")
    assert [f.question for f in found] == ["I live in Oslo."]
    memory.forget(ids=[new.id])
    assert [f.valid_to for f in memory.store.facts(memory.namespace)] == [None]


def test_a_long_memory_is_forgotten_whole(memory):
    with memory.store.transaction(memory.namespace) as db:
        own = {"user": "ana", "agent": "stategate", "thread_id": "t", "answer": "", "about": ""}
        rows = [
            {**own, "episode_id": f"e{i}", "step": 0, "question": f"said {i}", "at": 1.0}
            for i in range(33_000)
        ]
        db.execute(tables.turns.insert(), rows)
    memory.store.add(memory.namespace, turn("The mill burns."))
    assert memory.forget() == 1
    with memory.store.transaction(memory.namespace) as db:
        assert db.scalar(sa.select(tables.turns.c.id)) is None


def test_copies_of_a_thread_are_cleared_and_others_who_said_the_same_keep_theirs(
    memory, places, tmp_path
):
    other = Memory(str(tmp_path / "memory.sqlite"), embedder=HashingEmbedder(), user="bo")
    other.remember_all([{"text": SECRET, "thread": "bos", "id": "e7"}])
    traces = TraceStore(places.traces)
    saver = open_saver(places.checkpoints)
    for thread in ("copy", "bos"):  # a fork of t1, and another user's own words
        traces.write_step(f"of {thread}", 0, [Event("OBS", SECRET, 0)], thread_id=thread)
        config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        checkpoint = {**empty_checkpoint(), "channel_values": {"said": SECRET}}
        saver.put(config, checkpoint, {}, {"said": 1})
    memory.forget(thread="never")
    counts = forget_everywhere(memory.store, memory.namespace, thread="t1", places=places)
    assert (counts["trace steps"], counts["checkpoints"]) == (2, 2)
    left = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
    assert left == {"bos", "t2"}
    assert [e for e, _, _ in traces.steps_with([SECRET])] == ["of bos"]
    assert len(other.store.facts(other.namespace)) == 1
