"""Stores against models of them in plain Python: random writes in any order, reopened at any time."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from stategate.stores.bank import Bank, Row
from stategate.stores.corpus.chunking import Chunking
from stategate.stores.corpus.corpus import Corpus, prepare
from stategate.stores.corpus.documents import Document
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Turn
from stategate.stores.trace_store import TraceStore
from stategate.stores.traces import Event

QUICK = settings(
    max_examples=10,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
WORDS = st.text(max_size=20)  # of any letters, line breaks and NUL among them
FEW = st.integers(0, 3)
USERS = st.sampled_from("abcd")


class Stored(RuleBasedStateMachine):
    """A store in a folder of its own, and what should be in it."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))

    @initialize()
    def begin(self):
        self.store = self.open()
        self.model = {}

    @rule()
    def reopen(self):
        self.store = self.open()

    def teardown(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def kept(text):
    """What stores make of NUL and of lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class Traces(Stored):
    def open(self):
        return TraceStore(self.folder / "traces.sqlite")

    @rule(episode=FEW, text=WORDS, action=WORDS)
    def next_step(self, episode, text, action):
        steps = self.model.setdefault(f"e{episode}", [])
        self.write(f"e{episode}", len(steps), text, action)

    @rule(episode=FEW, back=FEW, text=WORDS)
    def step_again(self, episode, back, text):
        steps = self.model.get(f"e{episode}", [])
        if steps:
            self.write(f"e{episode}", max(len(steps) - 1 - back, 0), text, "again")

    def write(self, name, step, text, action):
        events = [Event("OBS", text, step), Event("ACT", action, step)]
        self.store.write_step(name, step, events, reward=1.0)
        self.model[name] = [*self.model[name][:step], (kept(text), kept(action))]

    @invariant()
    def holds_what_was_written(self):
        episodes = {row["episode_id"]: row["steps"] for row in self.store.episodes()}
        assert episodes == {name: len(steps) for name, steps in self.model.items()}
        for name, steps in self.model.items():
            texts = [event.text for event in self.store.events(name)]
            assert texts == [text for step in steps for text in step]


class Documents(Stored):
    def open(self):
        return Corpus("notes", self.folder / "notes")

    @rule(origin=FEW, texts=st.dictionaries(st.sampled_from("abc"), WORDS, max_size=3))
    def sync(self, origin, texts):
        name = f"o{origin}"
        old = self.model.get(name, {})
        new = {id_: kept(text) for id_, text in texts.items()}
        changes = self.store.sync(name, [Document(i, i, text) for i, text in texts.items()])
        assert set(changes.added) == new.keys() - old.keys()
        assert set(changes.removed) == old.keys() - new.keys()
        assert set(changes.unchanged) <= new.keys() & old.keys()
        self.model[name] = new

    @invariant()
    def holds_what_was_synced(self):
        there = [(d.id, d.text) for d in self.store.documents()]
        by_id = sorted((i, o) for o in self.model for i in self.model[o])
        assert there == [(i, self.model[o][i]) for i, o in by_id]

    @rule()
    def search(self):
        chunking = Chunking.parse("fixed-64-10")
        passages, _ = prepare(self.store, chunking)
        texts = {d.text for d in self.store.documents()}
        assert all(any(passage.text in text for text in texts) for passage in passages)


class Experience(Stored):
    def open(self):
        return Bank(self.folder / "bank", "state", "h/8", create=True)

    @rule(episode=st.integers(0, 9), rows=FEW, worth=st.floats(0, 10))
    def add(self, episode, rows, worth):
        name = f"e{episode}"
        entries = []
        for n in range(rows):
            row = Row(f"{name}-{n}", name, worth, {"move": "m"})
            entries.append((row, _vector(8 * episode + n)))
        added = self.store.add(entries, source=name)
        known = self.model.setdefault(name, {})
        assert added == len([row for row, _ in entries if row.id not in known])
        for row, _ in entries:
            known.setdefault(row.id, worth)
        assert self.store.is_read(name)

    @rule(episode=st.integers(0, 9))
    def remove(self, episode):
        known = self.model.get(f"e{episode}", {})
        numbers = [row.n for row in self.store.rows() if row.id in known]
        self.store.remove(numbers)
        known.clear()

    @invariant()
    def holds_what_was_added(self):
        there = {row.id: row.q for row in self.store.rows()}
        assert there == {i: q for rows in self.model.values() for i, q in rows.items()}

    @rule(episode=st.integers(0, 9))
    def search(self, episode):
        hits = self.store.search(_vector(8 * episode), 3)
        there = {i for rows in self.model.values() for i in rows}
        assert {hit.row.id for hit in hits} <= there
        assert len(hits) == min(3, len(there))
        if f"e{episode}-0" in there:
            assert hits[0].row.id == f"e{episode}-0"


def _vector(seed):
    return np.random.default_rng(seed).normal(size=8).astype(np.float32)


class Remembered(Stored):
    def open(self):
        return LongTerm(f"sqlite:///{self.folder / 'memory.sqlite'}")

    @rule(user=USERS, episode=FEW, step=FEW, number=st.integers(0, 200))
    def write(self, user, episode, step, number):
        ours = self.model.setdefault(user, {})
        key = (f"e{episode}", step)
        text = f"Thing {number}."
        turn = Turn(f"t{episode}", *key, text, _vector(number), "h", at=float(number))
        written = self.store.add(user, turn)
        assert (written.outcome == "repeated") == (key in ours), "a turn is written once"
        ours.setdefault(key, text)

    @rule(user=USERS, episode=FEW)
    def erase(self, user, episode):
        ours = self.model.setdefault(user, {})
        erased = self.store.erase(user, thread=f"t{episode}")
        gone = {key for key in ours if key[0] == f"e{episode}"}
        assert {(one.episode_id, one.step) for one in erased} == gone
        for key in gone:
            ours.pop(key)

    @invariant()
    def holds_what_was_told(self):
        for user, ours in self.model.items():
            facts = self.store.facts(user)
            assert {(f.episode_id, f.step): f.text for f in facts} == ours


@pytest.mark.parametrize("machine", [Traces, Documents, Experience, Remembered])
def test_a_store_holds_what_its_model_holds(machine):
    run_state_machine_as_test(machine, settings=QUICK)
