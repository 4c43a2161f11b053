"""Long-term memory as a LangGraph store, beside LangGraph's own in-memory one."""

import asyncio
import time
from datetime import UTC, datetime

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from stategate.nodes.models.embedders import HashingEmbedder
from stategate.stores.memory.langgraph_store import LongTermStore
from stategate.stores.memory.long_term import LongTerm

EMBEDDER = HashingEmbedder()
USERS, ANA = ("users",), ("users", "ana")


@pytest.fixture
def memory(tmp_path):
    return LongTerm(f"sqlite:///{tmp_path / 'memory.sqlite'}")


@pytest.fixture
def store(memory):
    return LongTermStore(memory, EMBEDDER)


@pytest.fixture
def own():
    return InMemoryStore(index={"dims": 0, "embed": lambda texts: EMBEDDER.embed(texts).tolist()})


def fill(store):
    first = {"text": "likes sailing stones", "n": 3, "in": {"x": 1, "y": {"z": "q"}}, "none": None}
    store.put(ANA, "a", {**first, "tags": ["p", "q"], "ok": True})
    store.put(ANA, "b", {"text": "lives by a lake", "n": 1, "tags": ["p"], "ok": False})
    store.put(("users", "anabel"), "a", {"text": "flies gliders", "n": 2, "in": {"x": 2}})
    store.put((*ANA, "trips"), "c", {"text": "went to a playa", "n": 0}, index=False)
    store.put(("zoo",), "z", {"text": "a zebra", "n": 2.5, "s": "10"})
    store.put(("docs", "ana"), "d", {"text": "paper", "n": -1})


def plain(value):
    """Return what a store answered, without times."""
    if isinstance(value, list | tuple) and not isinstance(value, Item):
        return [plain(item) for item in value]
    if isinstance(value, SearchItem):
        return *value.namespace, value.key, value.value, value.score and round(value.score, 5)
    return (*value.namespace, value.key, value.value) if isinstance(value, Item) else value


def outcome(call, store):
    """Return what ``call`` gives and leaves, or the kind of its error."""
    try:
        return plain([call(store), store.search(()), store.list_namespaces()])
    except (TypeError, ValueError, NotImplementedError) as error:
        return type(error).__name__


SEARCHES = [
    *((place, {}) for place in ((), USERS, ("users", "an"), ("none",))),
    ((), {"filter": {"n": {"$gte": 1}, "ok": True}}),
    ((), {"filter": {"n": {"$gte": 1}}, "limit": 2, "offset": 1}),
    ((), {"filter": {"n": {"$in": [1]}}}),
    *((USERS, {"query": words}) for words in ("", "stones that sail")),
    ((), {"query": "sailing", "filter": {"n": {"$lt": 3}}, "limit": 2, "offset": 1}),
]
NAMESPACES = [
    *({}, {"prefix": USERS}, {"suffix": ("ana", "*")}, {"prefix": USERS, "max_depth": 2}),
    {"limit": 2, "offset": 1},
]
AT = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = [
    {"v": [None, {"a": []}, 10**30, 0.1 + 0.2, "å€😀\0\ud800'\"\\\n", float("inf")]},
    *({}, {"v": b"x"}, {"v": {1}}, {"v": AT}),
]
PUTS = [
    [(ANA, "a", None), (ANA, "a", {"n": 7}), (ANA, "nope", None)],
    [(("b",), "k", {"n": 1}), (("a",), "k", {"n": 2}), (("b",), "j", {"n": 3})],
    [(("a%", "_b"), "k'%_\"é", {"n": 1}), (("ab", "cb"), "K", {"n": 2})],
    *([(place, "k", {"n": 1})] for place in ((), ("a.b",), ("",), ("langgraph",), (1,))),
]
K = PutOp(ANA, "k", {"n": 1})
BATCHES = [
    [PutOp(ANA, "z", {"n": 4}), GetOp(ANA, "z"), PutOp(ANA, "z", {"n": 5})],
    [GetOp(ANA, "a"), PutOp(ANA, "a", None), SearchOp(ANA), ListNamespacesOp()],
    [K, PutOp(ANA, "j", {"n": 2}), PutOp(ANA, "k", {"n": 3})],
    [K, PutOp(ANA, "k", None), PutOp(ANA, "a", None), PutOp(ANA, "a", {})],
    [K, PutOp(ANA, "j", {"n": {1}})],
    ["nonsense"],
]
INDEXES = [
    [("k", {"t": "stones"}, False), ("j", {"t": "sand"}, None)],
    [("k", {"t": "sand", "o": "stones"}, ["o"]), ("j", {"t": "stones", "o": "boat"}, ["o"])],
    [("k", {"t": "stones"}, None), ("k", {"t": "lake"}, None), ("j", {"t": "stone"}, None)],
]


def indexed(rows):
    def call(store):
        for key, value, index in rows:
            store.put(("new",), key, value, index=index)
        return store.search(("new",), query="stones")

    return call


def batched(ops):
    return lambda store: [store.batch(ops), asyncio.run(store.abatch(ops)), store.get(ANA, "a")]


BEHAVIOURS = [
    *(lambda s, a=a, k=k: s.search(a, **k) for a, k in SEARCHES),
    *(lambda s, k=k: s.list_namespaces(**k) for k in NAMESPACES),
    *(lambda s, v=v: [s.put(ANA, "x", v), s.get(ANA, "x")] for v in VALUES),
    *(lambda s, rows=rows: [s.put(*row) for row in rows] for rows in PUTS),
    *map(batched, BATCHES),
    *map(indexed, INDEXES),
    lambda s: [s.get(ANA, key) for key in ("a", "A")],
    lambda s: s.put(ANA, "k", {"n": 1}, ttl=5),
    lambda s: [s.put(ANA, f"k{n}", {"n": n}) for n in range(20)],
    lambda s: asyncio.run(s.asearch((), query="lake", limit=2)),
]


@pytest.mark.parametrize("number", range(len(BEHAVIOURS)))
def test_it_behaves_like_langgraphs_own_store(store, own, number):
    for one in (own, store):
        fill(one)
    assert outcome(BEHAVIOURS[number], store) == outcome(BEHAVIOURS[number], own)


def test_items_are_kept_changed_and_deleted(store, memory):
    fill(store)
    before = store.get(ANA, "a")
    store.put(ANA, "a", {"text": "changed"})
    again = LongTermStore(LongTerm(memory.url))
    item = again.get(ANA, "a")
    assert (type(item), item.value) == (Item, {"text": "changed"})
    assert item.created_at == before.created_at < item.updated_at
    again.delete(ANA, "a")
    assert store.get(ANA, "a") is None


def test_what_json_would_change_or_confuse_is_refused(store):
    for key in (1, None, True):
        with pytest.raises(TypeError):
            store.put(ANA, "x", {"v": [{key: 1}]})
    for label, key in (("users", "k\0z"), ("users", "\ud800"), ("u\ud800", "k")):
        with pytest.raises(TypeError, match="encode it"):
            store.put((label,), key, {"v": 1})
    with pytest.raises(InvalidNamespaceError):
        store.batch([GetOp(("users.ana",), "a")])
    assert store.search(()) == []


def test_two_thousand_puts_take_at_most_two_seconds(store):
    started = time.process_time()
    for number in range(2000):
        store.put(ANA, str(number), {"text": "word " * 20})
    assert time.process_time() - started < 2
