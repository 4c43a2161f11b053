"""`configs/cluster.yaml` on a real PostgreSQL and a real Chroma server."""

import os

import numpy as np
import pytest

from stategate.graph import build_graph, load_config
from stategate.stores.bank import Bank, Row
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.trace_store import TraceStore


@pytest.fixture
def servers(own_database, chroma, home, monkeypatch):
    """Name an empty database and the Chroma server, cleared, as compose.yaml does."""

    monkeypatch.setenv("STATEGATE_POSTGRES", own_database())
    monkeypatch.setenv("STATEGATE_CHROMA", chroma)
    _clear(chroma)
    yield
    _clear(chroma)


def _clear(url):
    import chromadb

    port = int(url.rpartition(":")[2])
    client = chromadb.HttpClient("127.0.0.1", port)
    for collection in client.list_collections():
        client.delete_collection(collection.name)


def ask(question, thread="t"):
    # The hashing embedder: what is tested is where things go.
    graph = build_graph(load_config("cluster", ["embedder.kind=hashing"]))
    graph.invoke({"task": {"question": question}}, {"configurable": {"thread_id": thread}})
    return graph.get_state({"configurable": {"thread_id": thread}}).values


def test_the_cluster_keeps_all_on_the_servers(servers, home):
    values = ask("My boat is called Halcyon.")
    assert values["action"]
    url = os.environ["STATEGATE_POSTGRES"]
    store = TraceStore("$STATEGATE_POSTGRES")
    (episode,) = store.episodes()
    assert episode["done"]
    assert not [path for path in home.iterdir() if path.suffix == ".sqlite"]

    bank = Bank("$STATEGATE_POSTGRES#state", "state", "m/4", create=True)
    bank.add([(Row("r", "t", 5.0, {"move": "go"}), np.eye(4, dtype="f4")[0])])
    assert bank.search(np.eye(4)[0], 1)[0].row.id == "r"

    [mine] = open_long_term(url).users()
    assert open_long_term(url).facts(mine)
    assert ask("Where is that?")["episodes"] == 2, "the conversation goes on"
