"""`langgraph dev` serves the graph of langgraph.json; the official SDK drives it as two people."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from stategate.graph import load_config
from stategate.graph.agent import Agent
from stategate.graph.build import make_builder
from stategate.graph.owners import for_user, owner_of, require_no_places
from stategate.graph.state import overrides_of, validated
from stategate.stores.accounts import hashed
from stategate.stores.errors import UserError

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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start the development server on the repository's langgraph.json, with two accounts."""
    folder = tmp_path_factory.mktemp("served")
    settings = json.loads((ROOT / "langgraph.json").read_text())
    assert (ROOT / settings["graphs"]["stategate"].partition(":")[0]).is_file()
    text = json.dumps({**settings, "dependencies": [str(ROOT)]}).replace('"./', f'"{ROOT}/')
    (folder / "langgraph.json").write_text(text)
    (folder / "agent.yaml").write_text(CONFIG)
    (folder / "accounts").write_text(
        f"{hashed('ann', 'horse')}\n{hashed('bob', 'battery')}\n"
        f"{hashed('ann.b@example.org', 'staple')}\n{hashed('local', 'local')}\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["dev", "--no-browser", "--no-reload", "--port", str(port)]
    code = f"import sys; sys.argv = ['langgraph', *{words!r}]; from langgraph_cli.cli import cli; cli()"
    environment = {
        **os.environ,
        "STATEGATE_CONFIG": str(folder / "agent.yaml"),
        "LANGSMITH_TRACING": "false",
        "STATEGATE_ACCOUNTS": str(folder / "accounts"),
    }
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, env=environment, stdout=log, stderr=log
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{url}/ok", timeout=2).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
                time.sleep(0.3)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def test_what_a_server_s_config_names_its_callers_may_name():
    config = load_config({"env": {"kind": "qa", "corpus": "notes"}, "memory": ["trace"]})
    own = {"env": {"kind": "qa", "corpus": "notes"}, "memory": [{"kind": "trace"}]}
    require_no_places(validated(overrides_of(own)), config)
    require_no_places(validated(overrides_of({"kind": "window", "budget": 90})), config)


def test_an_account_is_nobody_else_whatever_its_call_says():
    given = {"langgraph_auth_user_id": "bob", "user_id": "ann", "thread_id": "anns"}
    assert owner_of(given) == "bob"
    config = load_config(yaml.safe_load(CONFIG))
    seen = []

    class Seen(Agent):
        def bound(self, *given):
            seen.append(given)
            return super().bound(*given)

    builder = make_builder(Seen(config))
    task = {"task": {"goal": 3}}
    builder.compile().invoke(task, {"configurable": {**given, "episode_id": "anns"}})
    assert {each[3:] for each in seen} == {(None, "bob", "bob")}


def client(url, user="ann", password="horse"):
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return sdk.get_sync_client(url=url, headers={"Authorization": f"Basic {token}"})


def refused(ask):
    """Return the HTTP status that the server refuses with."""
    with pytest.raises(sdk.errors.APIStatusError) as error:
        ask()
    return error.value.status_code


def test_an_assistant_with_another_context_builder_streams_a_run(server):
    ann = client(server)
    window = ann.assistants.create("stategate", context={"context": {"kind": "window"}}, name="w")
    thread = ann.threads.create()
    parts = list(
        ann.runs.stream(
            thread["thread_id"],
            window["assistant_id"],
            input={"task": {"goal": 3}},
            stream_mode=["updates", "custom"],
        )
    )
    told = [part.data for part in parts if part.event == "custom"]
    assert {line["kind"] for line in told if line["node"] == "build_context"} == {"window"}
    assert [line["node"] for line in told[:5]] == [
        "observe",
        "update_state",
        "build_context",
        "act",
        "write_memory",
    ]
    values = ann.threads.get_state(thread["thread_id"])["values"]
    assert values["steps"] >= 3
    history = ann.threads.get_history(thread["thread_id"], limit=100)
    assert len(history) > 5 * (values["steps"] - 1)
    assert [h["values"].get("steps", 0) for h in history] == sorted(
        (h["values"].get("steps", 0) for h in history), reverse=True
    )


def test_a_person_is_asked_and_the_run_goes_on_with_the_answer(server):
    ann = client(server)
    thread = ann.threads.create()["thread_id"]
    person = {"actor": {"kind": "human"}}
    ann.runs.wait(thread, "stategate", input={"task": {"goal": 3}}, context=person)
    state = ann.threads.get_state(thread)
    (question,) = state["interrupts"]
    assert question["value"]["actions"]
    assert state["next"] == ["act"]
    ann.runs.wait(thread, "stategate", command={"resume": "search[lamp]"}, context=person)
    values = ann.threads.get_state(thread)["values"]
    assert (values["action"], values["steps"]) == ("search[lamp]", 1)


def test_another_user_is_refused(server):
    ann, bob = client(server), client(server, "bob", "battery")
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
        lambda: bob.threads.create(thread_id=thread, if_exists="do_nothing"),
        lambda: bob.crons.create_for_thread(thread, "stategate", schedule="0 0 * * *"),
    ):
        assert refused(ask) in (403, 404, 409)
    head = ann.threads.get_state(thread)["checkpoint"]
    own = bob.threads.create()["thread_id"]
    bob.runs.wait(own, "stategate", input={"task": {"goal": 5}})
    elsewhere = {key: head[key] for key in ("thread_id", "checkpoint_id", "checkpoint_ns")}
    assert not bob.threads.get_state(own, checkpoint=elsewhere)["values"]
    bob.threads.update_state(own, {"steps": 77}, checkpoint=elsewhere)
    named = {"configurable": {"thread_id": thread}}
    bob.runs.wait(own, "stategate", input={"task": {"goal": 7}}, config=named)
    assert ann.threads.get_state(thread)["checkpoint"] == head
    assert thread not in {found["thread_id"] for found in bob.threads.search(limit=100)}
    assert ann.threads.get(thread)["thread_id"] == thread


@pytest.mark.parametrize(
    "who", [("eve", "horse"), ("ann", "battery"), ("", ""), ("local", "local")]
)
def test_a_stranger_is_refused_everything(server, who):
    stranger = client(server, *who)
    for ask in (stranger.threads.create, stranger.assistants.search, stranger.threads.search):
        assert refused(ask) == 401


def test_store_items_lie_apart(server):
    ann, bob = client(server), client(server, "bob", "battery")
    mail = client(server, "ann.b@example.org", "staple")
    mail.store.put_item(["notes"], "m", {"text": "mine"}, index=False)
    assert mail.store.get_item(["notes"], "m")["value"] == {"text": "mine"}
    ann.store.put_item(["notes"], "a", {"text": "the door code is 4711"}, index=False)
    bob.store.put_item(["notes"], "b", {"text": "the sky is blue"}, index=False)
    assert ann.store.get_item(["notes"], "a")["value"] == {"text": "the door code is 4711"}
    assert not bob.store.get_item(["notes"], "a")
    for prefix in ([], ["notes"], ["ann"], ["ann", "notes"]):
        found = bob.store.search_items(prefix)["items"]
        assert not [item for item in found if "4711" in str(item)]
    assert "ann" not in str(bob.store.list_namespaces())


def test_a_caller_cannot_name_a_place_of_the_server(server):
    ann = client(server)
    for context in (
        {"memory": [{"kind": "trace", "path": "/tmp/elsewhere.sqlite"}]},
        {"llm": {"kind": "openai", "base_url": "https://attacker.example", "model": "m"}},
        {"context": {"kind": "recall", "memory": {"place": {"url": "sqlite:////etc/x"}}}},
        {"env": {"kind": "webshop", "data": "../secrets"}},
        {"env": {"kind": "qa", "corpus": "salaries"}},
        {"context": {"kind": "experience", "bank": "bobs"}},
        {"memory": [{"kind": "experience"}]},
        {"memory": [{"kind": "trace"}]},
    ):
        thread = ann.threads.create()["thread_id"]
        answer = ann.runs.wait(
            thread, "stategate", input={"task": {"goal": 3}}, context=context, raise_error=False
        )
        assert answer["__error__"]["error"] == "UserError"  # the server keeps the words in its log
        own = overrides_of(context)
        with pytest.raises(UserError, match="the server's to set"):
            require_no_places(validated(own), load_config(yaml.safe_load(CONFIG)))
    assert not Path("/tmp/elsewhere.sqlite").exists()


def test_without_accounts_only_this_machine_may_ask(monkeypatch):
    import asyncio

    from stategate.graph.serving import authenticate

    monkeypatch.delenv("STATEGATE_ACCOUNTS", raising=False)

    def ask(**headers):
        raw = {k.replace("_", "-").encode(): v.encode() for k, v in headers.items()}
        return asyncio.run(authenticate(headers=raw))

    assert ask(host="127.0.0.1:2024") == {"identity": "local"}
    for headers in (
        {"host": "evil.example"},
        {"host": "127.0.0.1:2024", "origin": "https://evil.example"},
        {},
        {"host": "[::1].evil.example"},
        {"host": "evil.example@127.0.0.1"},
        {"host": "[::1"},
        {"host": "127.0.0.1#.evil.example"},
        {"host": "[::1]", "origin": "http://[::1"},
    ):
        with pytest.raises(sdk.Auth.exceptions.HTTPException):
            ask(**headers)


def test_each_callers_memory_is_its_own():
    config = load_config("qa-ltm")
    mine = for_user(config, "ann")
    users = [params.place.user for params in mine.memory if hasattr(params, "place")]
    assert users == ["ann"]
    assert mine.context.memory.place.user == "ann"
    assert config.context.memory.place.user is None


def test_the_refusal_is_an_http_one(server):
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(f"{server}/threads/search", data=b"{}", timeout=10)
    assert error.value.code == 401
