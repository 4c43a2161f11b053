"""`configs/cluster.yaml` on a real PostgreSQL and a real Chroma server; and both in a backup."""

import os
import subprocess

import numpy as np
import pytest

from stategate.graph import build_graph, load_config
from stategate.stores.backup import back_up, restore
from stategate.stores.bank.bank import Entry, Row
from stategate.stores.bank.state_bank import StateBank
from stategate.stores.corpus.vectors import collections
from stategate.stores.errors import UserError
from stategate.stores.memory.long_term import open_long_term
from stategate.stores.traces.store import TraceStore


@pytest.fixture
def servers(own_database, chroma, tmp_path, monkeypatch):
    """Name an empty database and the Chroma server, cleared, as compose.yaml does."""

    def empty(name):
        monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / name))
        monkeypatch.setenv("STATEGATE_POSTGRES", own_database())
        monkeypatch.setenv("STATEGATE_CHROMA", chroma)
        _clear(chroma)

    empty("old")
    yield empty
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


def test_the_cluster_keeps_all_on_the_servers_and_a_backup_brings_it_back(servers, tmp_path):
    values = ask("My boat is called Halcyon.")
    assert values["action"]
    url = os.environ["STATEGATE_POSTGRES"]
    store = TraceStore("$STATEGATE_POSTGRES")
    (episode,) = store.episodes()
    assert episode["done"]
    assert not (tmp_path / "old" / "traces.sqlite").exists()
    assert not (tmp_path / "old" / "checkpoints.sqlite").exists()
    assert not (tmp_path / "old" / "long_term.sqlite").exists()
    (passages,) = collections(os.environ["STATEGATE_CHROMA"])
    assert len(passages) > 3

    bank = StateBank("$STATEGATE_POSTGRES#state", "m/4", create=True, vectors="$STATEGATE_CHROMA")
    bank.bank.add([Entry(Row("r", "t", 5.0, {"move": "go"}), {"text": np.eye(4, dtype="f4")[0]})])
    assert bank.search({"text": np.eye(4)[0]}, 1)[0].row.id == "r"

    [mine] = open_long_term(url).namespaces()
    facts = open_long_term(url).facts(mine)
    files, _ = back_up(tmp_path / "b.tar.gz")
    servers("new")
    assert restore(tmp_path / "b.tar.gz") == files
    assert TraceStore("$STATEGATE_POSTGRES").events(episode["episode_id"]) == store.events(
        episode["episode_id"]
    )
    assert len(open_long_term(os.environ["STATEGATE_POSTGRES"]).facts(mine)) == len(facts) > 0
    assert len(collections(os.environ["STATEGATE_CHROMA"])) == 2
    again = StateBank("$STATEGATE_POSTGRES#state", "m/4", vectors="$STATEGATE_CHROMA")
    assert again.search({"text": np.eye(4)[0]}, 1)[0].row.data == {"move": "go"}
    assert ask("Where is that?")["episodes"] == 2, "the conversation goes on"
    with pytest.raises(UserError, match="already|empty"):
        restore(tmp_path / "b.tar.gz")


def test_a_server_that_is_not_there_is_one_line_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("STATEGATE_POSTGRES", "postgresql://ann:secret7@127.0.0.1:9/none")
    with pytest.raises(UserError) as error:
        back_up(tmp_path / "b.tar.gz")
    assert "secret7" not in str(error.value)
    assert "\n" not in str(error.value)


def test_no_password_stands_on_a_command_line(postgres, tmp_path, monkeypatch):
    seen = []
    real = subprocess.run

    def run(words, **more):
        seen.append((words, more["env"]))
        return real(words, **more)

    monkeypatch.setenv("STATEGATE_HOME", str(tmp_path / "home"))
    name = postgres.replace("tester@", "tester:secret7@")
    monkeypatch.setenv("STATEGATE_POSTGRES", name)
    monkeypatch.delenv("STATEGATE_CHROMA", raising=False)
    monkeypatch.setattr("stategate.stores.shared_backup.subprocess.run", run)
    back_up(tmp_path / "b.tar.gz")
    ((words, environment),) = seen
    assert not any("secret7" in word for word in words)
    assert environment["PGPASSWORD"] == "secret7"
