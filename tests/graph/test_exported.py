"""Threads exported by others' tools, in the forms that those tools write."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tracers.base import BaseTracer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from examples.scripted import Scripted
from stategate.graph.exported import read_messages
from stategate.stores.errors import UserError
from tests.graph.test_middleware import ASK, agent_of

CALL = {"name": "read", "args": {"n": 1}, "id": "c"}
THREAD = [
    SystemMessage("Be kind.", id="s"),
    HumanMessage("Read.", id="h"),
    AIMessage("", tool_calls=[CALL], id="a"),
    ToolMessage("line 1", tool_call_id="c", id="t"),
    AIMessage("Done.", id="b"),
]
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Read."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"n": 1}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "content": "line 1"},
    {"role": "assistant", "content": "Done."},
]
RESPONSES = {
    "instructions": "Be kind.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Read."}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "function_call",
            "id": "f",
            "call_id": "c",
            "name": "read",
            "arguments": '{"n": 1}',
        },
        {"type": "function_call_output", "call_id": "c", "output": "line 1"},
    ],
    "output": [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Done."}],
        }
    ],
}
ANTHROPIC = {
    "model": "claude-sonnet-4-5",
    "system": "Be kind.",
    "messages": [
        {"role": "user", "content": "Read."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "tool_use", "id": "c", "name": "read", "input": {"n": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [{"type": "text", "text": "line 1"}],
                }
            ],
        },
    ],
    "response": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
}
LC = [dumpd(message) for message in THREAD]
FORMS: dict[str, Any] = {
    "chat": CHAT,
    "chat request and response": {
        "model": "m",
        "messages": CHAT[:-1],
        "response": {"choices": [{"message": CHAT[-1]}]},
    },
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "langchain flat": [m.model_dump() for m in THREAD],
    "langchain constructors": LC,
    "langsmith run of a graph": {
        "run_type": "chain",
        "inputs": {"messages": LC[:2]},
        "outputs": {"messages": LC},
    },
    "langsmith run of a model": {
        "run_type": "llm",
        "inputs": {"messages": [LC[:-1]]},
        "outputs": {"generations": [[{"text": "Done.", "message": LC[-1]}]]},
    },
    "get_state": {"values": {"messages": [m.model_dump() for m in THREAD]}, "next": []},
    "get_state as a tuple": [
        {"messages": [m.model_dump() for m in THREAD]},
        [],
        {"configurable": {}},
    ],
    "get_state_history": [
        {"values": {"messages": [m.model_dump() for m in THREAD[:n]]}, "next": []}
        for n in (5, 3, 0)
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_thread(form: str, tmp_path: Path) -> None:
    path = tmp_path / "thread.json"
    path.write_text(json.dumps(FORMS[form]))
    found = read_messages(str(path))
    assert [m.type for m in found] == ["system", "human", "ai", "tool", "ai"]
    call, result, said = found[2], found[3], found[4]
    assert isinstance(call, AIMessage)
    assert [(c["name"], c["args"], c["id"]) for c in call.tool_calls] == [("read", {"n": 1}, "c")]
    assert isinstance(result, ToolMessage)
    assert (result.text, result.tool_call_id) == ("line 1", "c")
    assert (found[0].text, found[1].text, said.text) == ("Be kind.", "Read.", "Done.")


def test_json_lines_are_messages_or_threads(tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_text("\n".join(map(json.dumps, CHAT)))
    assert len(read_messages(str(path))) == 5
    rows = [{"messages": CHAT}, {"messages": CHAT[:2]}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert len(read_messages(f"{path}#1")) == 5
    assert len(read_messages(f"{path}#2")) == 2
    with pytest.raises(UserError, match="2 threads: name one as"):
        read_messages(str(path))


def _plain(value: Any) -> Any:
    return dumpd(value) if hasattr(value, "lc_id") else str(value)


def test_what_a_tracer_and_a_graph_really_write(tmp_path: Path) -> None:
    class Kept(BaseTracer):
        def __init__(self) -> None:
            super().__init__()
            self.runs: list[Any] = []

        def _persist_run(self, run: Any) -> None:
            self.runs.append(run)

    model = Scripted.of([("read_page", {"number": 1})], "Blue.")
    agent = agent_of(model, [], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [tracer := Kept()]}
    agent.invoke(ASK, config)
    run = tracer.runs[0]
    plain = {"inputs": run.inputs, "outputs": run.outputs}
    state = agent.get_state(config)._asdict()
    for name, values in (("run", plain), ("state", state)):
        path = tmp_path / f"{name}.json"
        path.write_text(
            json.dumps(values, default=lambda o: dumpd(o) if hasattr(o, "lc_id") else str(o))
        )
        found = read_messages(str(path))
        assert [m.type for m in found] == ["human", "ai", "tool", "ai"], name


def test_a_database_that_is_looked_into_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    theirs = sqlite3.connect(path, check_same_thread=False)
    model = Scripted.of([("read_page", {"number": 1})], "Blue.")
    agent = agent_of(model, [], checkpointer=SqliteSaver(theirs))
    agent.invoke(ASK, {"configurable": {"thread_id": "t"}})
    before = list(theirs.iterdump())
    assert [m.type for m in read_messages(f"{path}#t")] == ["human", "ai", "tool", "ai"]
    with pytest.raises(UserError, match="there are: t"):
        read_messages(str(path))
    with pytest.raises(UserError, match="no thread 'x'"):
        read_messages(f"{path}#x")
    assert list(theirs.iterdump()) == before
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("create table facts (n integer)")
    with pytest.raises(UserError, match="no database of checkpoints"):
        read_messages(f"{other}#t")


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[]",
        '{"a": 1}',
        '[{"role": "king", "content": "x"}]',
        "3",
        '"x"',
        '[{"lc": 1}]',
        '[{"type": "function_call", "call_id": "c", "name": "x", "arguments": "{"}]',
    ],
)
def test_what_is_none_is_one_line(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(bad)
    with pytest.raises(UserError):
        read_messages(str(path))
