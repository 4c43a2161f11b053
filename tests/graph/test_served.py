"""`langgraph dev` serves the graph of langgraph.json; the official SDK drives it, alone and as two."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from stategate.graph.nodes import NODES
from stategate.graph.state import memory_owner
from tests.kit import program

sdk = pytest.importorskip("langgraph_sdk")
pytest.importorskip("langgraph_api")
ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
env: {kind: webshop, data: sample}
embedder: {kind: hashing}
context: {kind: full, budget: 1000}
actor: {kind: rule}
memory: [{kind: short_term}]
max_steps: 8
"""


def served(folder, auth):
    """Return the running development server of the repository's langgraph.json: it yields a URL."""
    settings = json.loads((ROOT / "langgraph.json").read_text())
    assert (ROOT / settings["graphs"]["stategate"].partition(":")[0]).is_file()
    settings["dependencies"] = [str(ROOT)]
    settings["auth"]["path"] = auth or settings["auth"]["path"]
    (folder / "langgraph.json").write_text(json.dumps(settings).replace('"./', f'"{ROOT}/'))
    (folder / "agent.yaml").write_text(CONFIG)
    code = "import sys; from langgraph_cli.cli import cli; sys.argv[0] = 'langgraph'; cli()"
    environment = {
        **os.environ,
        "STATEGATE_CONFIG": str(folder / "agent.yaml"),
        "LANGSMITH_TRACING": "false",
        "TOKENS": "ann=horse bob=battery",
    }
    words = ["-c", code, "dev", "--no-browser", "--no-reload", "--port"]
    return program(lambda port: [*words, str(port)], folder / "log", cwd=folder, env=environment)


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """The client of the server as it is: this machine's own."""
    with served(tmp_path_factory.mktemp("own"), None) as url:
        yield sdk.get_sync_client(url=url)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Return the client of whoever has a token, on a server with the example's accounts."""
    with served(tmp_path_factory.mktemp("people"), "./examples/server_accounts.py:auth") as url:

        def client(token):
            return sdk.get_sync_client(url=url, headers={"Authorization": f"Bearer {token}"})

        yield client


def refused(ask):
    """Return the HTTP status that the server refuses with."""
    with pytest.raises(sdk.errors.APIStatusError) as error:
        ask()
    return error.value.status_code


def test_an_assistant_with_another_context_builder_streams_a_run(mine):
    window = mine.assistants.create("stategate", context={"context": {"kind": "window"}}, name="w")
    thread = mine.threads.create()
    parts = list(
        mine.runs.stream(
            thread["thread_id"],
            window["assistant_id"],
            input={"task": {"goal": 3}},
            stream_mode="updates",
        )
    )
    told = [node for part in parts if part.event == "updates" for node in part.data]
    assert tuple(told[:5]) == NODES
    values = mine.threads.get_state(thread["thread_id"])["values"]
    assert values["steps"] >= 3
    history = mine.threads.get_history(thread["thread_id"], limit=100)
    assert len(history) > 5 * (values["steps"] - 1)
    steps = [moment["values"].get("steps", 0) for moment in history]
    assert steps == sorted(steps, reverse=True)


def test_only_this_machine_may_ask():
    from stategate.graph.serving import authenticate, graph

    assert set(NODES) <= set(graph.nodes)
    assert not graph.checkpointer

    def ask(**headers):
        raw = {k.replace("_", "-").encode(): v.encode() for k, v in headers.items()}
        return asyncio.run(authenticate(headers=raw))

    assert ask(host="127.0.0.1:2024")
    hosts = ("evil.example", "[::1].evil.example", "evil.example@127.0.0.1", "[::1", "")
    for headers in (
        *({"host": host} for host in (*hosts, "127.0.0.1#.evil.example")),
        {"host": "127.0.0.1:2024", "origin": "https://evil.example"},
        {"host": "127.0.0.1:2024", "sec_fetch_site": "cross-site"},
        {"host": "[::1]", "origin": "http://[::1"},
    ):
        with pytest.raises(sdk.Auth.exceptions.HTTPException):
            ask(**headers)


def test_studio_s_header_opens_no_door(mine, people):
    studio = {"x-auth-scheme": "langsmith", "origin": "https://evil.example"}
    for client in (mine, people("eve")):
        assert refused(lambda to=client.threads: to.create(headers=studio)) in (401, 403)
        assert refused(lambda to=client.threads: to.search(headers=studio)) in (401, 403)


def test_whose_a_call_s_memory_is():
    assert memory_owner({"thread_id": "t"}) == "thread t"
    assert memory_owner({"thread_id": "t", "user_id": "ann"}) == "ann"
    # Whom a server's authentication knows is nobody else, whatever its call says.
    given = {"langgraph_auth_user_id": "bob", "user_id": "ann", "thread_id": "anns"}
    assert memory_owner(given) == "bob"


def test_another_user_is_refused(people):
    ann, bob = people("horse"), people("battery")
    thread = ann.threads.create()["thread_id"]
    ann.runs.wait(thread, "stategate", input={"task": {"goal": 3}})
    for ask in (
        lambda: bob.threads.get(thread),
        lambda: bob.threads.get_state(thread),
        lambda: bob.threads.get_history(thread),
        lambda: bob.threads.update_state(thread, {"steps": 0}),
        lambda: bob.runs.create(thread, "stategate", input={"task": {"goal": 3}}),
        lambda: bob.runs.list(thread),
        lambda: bob.threads.delete(thread),
        lambda: bob.threads.copy(thread),
    ):
        assert refused(ask) in (403, 404, 409)
    head = ann.threads.get_state(thread)["checkpoint"]
    own = bob.threads.create()["thread_id"]
    bob.runs.wait(own, "stategate", input={"task": {"goal": 7}})
    assert ann.threads.get_state(thread)["checkpoint"] == head
    assert thread not in {found["thread_id"] for found in bob.threads.search(limit=100)}
    assert ann.threads.get(thread)["thread_id"] == thread
    for stranger in (people("eve"), people("ann")):
        for ask in (stranger.threads.create, stranger.assistants.search, stranger.threads.search):
            assert refused(ask) == 401


def test_store_items_lie_apart(people):
    ann, bob = people("horse"), people("battery")
    ann.store.put_item(["notes"], "a", {"text": "the door code is 4711"}, index=False)
    bob.store.put_item(["notes"], "b", {"text": "the sky is blue"}, index=False)
    assert ann.store.get_item(["notes"], "a")["value"] == {"text": "the door code is 4711"}
    assert not bob.store.get_item(["notes"], "a")
    for prefix in ([], ["notes"], ["ann"], ["ann", "notes"]):
        found = bob.store.search_items(prefix)["items"]
        assert not [item for item in found if "4711" in str(item)]


def test_the_nodes_are_the_server_s(people):
    bob = people("battery")
    thread = bob.threads.create()["thread_id"]
    context = {"memory": [{"kind": "trace", "path": "/tmp/elsewhere.sqlite"}]}
    task = {"task": {"goal": 3}}
    for ask in (
        lambda: bob.runs.create(None, "stategate", input=task, context=context),
        lambda: bob.runs.create(thread, "stategate", input=task, context=context),
        lambda: bob.assistants.create("stategate", context=context),
    ):
        assert refused(ask) in (401, 403, 404, 422)
    assert not Path("/tmp/elsewhere.sqlite").exists()
