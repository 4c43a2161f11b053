"""Long-term memory as a LangGraph store, beside LangGraph's own in-memory one."""

import asyncio
from datetime import UTC, datetime

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, Item, PutOp
from langgraph.store.memory import InMemoryStore

from stategate.nodes.models.embedders import HashingEmbedder
from stategate.stores.memory.langgraph_store import LongTermStore
from stategate.stores.memory.long_term import LongTerm

EMBEDDER = HashingEmbedder()


@pytest.fixture
def memory(tmp_path):
    return LongTerm(f"sqlite:///{tmp_path / 'memory.sqlite'}")


@pytest.fixture
def store(memory):
    return LongTermStore(memory, EMBEDDER)


def fill(store):
    store.put(("users", "ana"), "a", {"text": "likes sailing stones", "n": 3, "in": {"x": 1}})
    store.put(("users", "ana"), "b", {"text": "lives by a lake", "n": 1})
    store.put(("users", "anabel"), "a", {"text": "flies gliders", "n": 2})
    store.put(("users", "ana", "trips"), "c", {"text": "went to a playa", "n": 0}, index=False)


@pytest.mark.parametrize(
    ("prefix", "more"),
    [
        (("users",), {}),
        (("users", "ana"), {}),
        (("users", "ana"), {"filter": {"n": 3}}),
        (("users",), {"filter": {"n": {"$gte": 2}}}),
        (("users",), {"filter": {"in": {"x": 1}}}),
        (("none",), {}),
        (("users",), {"limit": 2, "offset": 1}),
        (("users",), {"filter": {"n": {"$ne": 3}}, "limit": 1}),
        (("users",), {"query": ""}),
    ],
)
def test_it_answers_like_langgraphs_own_store(store, prefix, more):
    own = InMemoryStore()
    for one in (own, store):
        fill(one)
    ours, theirs = (
        [(i.namespace, i.key, i.value) for i in one.search(prefix, **more)] for one in (store, own)
    )
    assert ours == theirs
    for how in ({"prefix": ("users",)}, {"suffix": ("trips",), "max_depth": 2}):
        assert store.list_namespaces(**how) == own.list_namespaces(**how)


def test_items_are_kept_changed_and_deleted(store, memory):
    fill(store)
    store.put(("users", "ana"), "a", {"text": "changed"})
    again = LongTermStore(LongTerm(memory.url))
    item = again.get(("users", "ana"), "a")
    assert (type(item), item.value) == (Item, {"text": "changed"})
    with pytest.raises(InvalidNamespaceError):
        again.batch([GetOp(("users.ana",), "a")])
    assert item.updated_at >= item.created_at
    again.delete(("users", "ana"), "a")
    assert store.get(("users", "ana"), "a") is None


def test_a_batch_reads_what_was_before_it_and_the_last_write_holds(store):
    own = InMemoryStore()
    place = ("a",)
    for one in (own, store):
        one.put(place, "x", {"n": 1})
        one.put(place, "y", {"n": 2})
        one.put(place, "x", {"n": 3})
        ops = [PutOp(place, "z", {"n": 4}), GetOp(place, "z"), PutOp(place, "z", {"n": 5})]
        assert one.batch(ops) == [None, None, None]
        one.delete(place, "y")
        one.put(place, "y", {"n": 6})
    ours, theirs = ([(i.key, i.value) for i in one.search(place)] for one in (store, own))
    assert ours == theirs


@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=UTC), b"bytes"])
def test_a_value_that_is_not_json_is_a_type_error(store, value):
    with pytest.raises(TypeError):
        store.put(("a",), "x", {"at": value})
    assert store.get(("a",), "x") is None


def test_a_query_ranks_by_meaning_and_what_is_not_indexed_comes_last(store):
    fill(store)
    found = store.search(("users",), query="stones that sail")
    assert found[0].key == "a"
    assert found[0].score > found[-2].score
    assert (found[-1].namespace, found[-1].score) == (("users", "ana", "trips"), None)
    assert asyncio.run(store.asearch(("users",), query="lake"))[0].value["n"] == 1
