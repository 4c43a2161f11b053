"""Threads exported by others' tools, in the forms that those tools write."""

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from stategate.evals.replay import measure
from stategate.graph.checkpoints import open_saver
from stategate.graph.exported import from_plain, read_messages, read_threads
from stategate.stores.errors import UserError
from tests.graph.test_middleware import ASK, agent_of, messages_read
from tests.kit import Scripted

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
FORMS: dict[str, Any] = {
    "chat": CHAT,
    "openai's client": [{"refusal": None, "function_call": None, **row} for row in CHAT],
    "openai's client without nulls": [
        {key: value for key, value in row.items() if value is not None} for row in CHAT
    ],
    "langsmith": {"run_type": "chain", "inputs": {"input": "Read."}, "outputs": {"messages": CHAT}},
    "langchain flat": [m.model_dump() for m in THREAD],
    "langchain typed": messages_to_dict(THREAD),
    "langchain constructors": [dumpd(message) for message in THREAD],
    "get_state": {"values": {"messages": [m.model_dump() for m in THREAD]}, "next": []},
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_thread(form: str, tmp_path: Path) -> None:
    path = tmp_path / "thread.json"
    path.write_text(json.dumps(FORMS[form]))
    found = read_messages(str(path))
    assert [m.type for m in found] == ["system", "human", "ai", "tool", "ai"]
    call, result, said = found[2], found[3], found[4]
    assert isinstance(call, AIMessage)
    assert [(c["name"], c["args"], c["id"]) for c in call.tool_calls] == [
        ("read", {"n": 1}, result.tool_call_id)
    ]
    assert isinstance(result, ToolMessage)
    assert result.text == "line 1"
    assert (found[0].text, found[1].text, said.text) == ("Be kind.", "Read.", "Done.")


def test_lines_are_messages_or_threads_and_a_bad_one_is_skipped_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_text("\n".join(map(json.dumps, CHAT)))
    assert len(read_messages(str(path))) == 5
    rows = [json.dumps({"messages": rows}) for rows in (CHAT, [], CHAT, [*CHAT, {"role": "king"}])]
    path.write_text("\n".join(rows) + "\n" + rows[0][:90])
    assert [thread.id for thread in read_threads(str(path))] == ["1", "3"]
    assert "skipped 3 of 5 threads" in caplog.text
    assert len(read_messages(f"{path}#3")) == 5
    with pytest.raises(UserError, match="name a thread after a #"):
        read_messages(str(path))
    for number, says in ((4, "message 6 of .*thread 4'"), (5, "thread 5'")):
        with pytest.raises(UserError, match=says):
            read_threads(f"{path}#{number}")


def test_a_separator_within_a_text_ends_no_line_and_a_packed_file_needs_no_suffix(
    tmp_path: Path,
) -> None:
    path = tmp_path / "threads.jsonl"
    line = json.dumps([{"role": "user", "content": "a\u2028b\x85c"}, CHAT[4]], ensure_ascii=False)
    path.write_bytes(gzip.compress(f"{line}\r\n\n{line}".encode()))
    threads = read_threads(str(path))
    assert [thread.messages[0].text for thread in threads] == ["a\u2028b\x85c"] * 2


def test_what_a_model_or_a_user_may_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "thread.json"
    for arguments in ('{"n": ', "[1]"):
        call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
        asked = {"role": "user", "content": "What is {'type': 'tool_result'}?"}
        path.write_text(json.dumps([asked, {**CHAT[2], "tool_calls": [call]}, *CHAT[3:]]))
        found = read_messages(str(path))
        assert [message.type for message in found] == ["human", "ai", "tool", "ai"]
        assert [call["args"] for call in found[1].invalid_tool_calls] == [arguments]  # type: ignore[attr-defined]
        assert measure(found, "compress", 1000)["orphans"] == 0


def test_a_call_without_an_id_goes_with_its_result() -> None:
    call = {"id": None, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = from_plain([CHAT[1], {**CHAT[2], "tool_calls": [call]}, *CHAT[3:], CHAT[1]])
    shown = messages_read(messages)
    assert [m.type for m in shown] == ["human", "ai", "human"]
    assert "left out 1 earlier message" in shown[0].text


def test_a_server_that_is_looked_into_stays_as_it_was(postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("create database theirs")
    url = postgres.replace("/postgres", "/theirs")
    with pytest.raises(UserError, match="cannot reach the checkpoint database"):
        read_threads(url)
    with psycopg.connect(url) as db:
        tables = db.execute("select count(*) from pg_tables where schemaname = 'public'")
        assert tables.fetchone() == (0,)
    agent = agent_of(Scripted.of([], "Blue."), [], checkpointer=open_saver(url))
    agent.invoke(ASK, {"configurable": {"thread_id": "t"}})
    assert [thread.id for thread in read_threads(url)] == ["t"]


def test_a_database_that_is_looked_into_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    theirs = sqlite3.connect(path, check_same_thread=False)
    model = Scripted.of([("read_page", {"number": 1})], "Blue.")
    agent = agent_of(model, [], checkpointer=SqliteSaver(theirs))
    agent.invoke(ASK, {"configurable": {"thread_id": "t"}})
    before = list(theirs.iterdump())
    assert [m.type for m in read_messages(f"{path}#t")] == ["human", "ai", "tool", "ai"]
    assert len(read_messages(str(path))) == 4  # its only thread
    with pytest.raises(UserError, match="no thread 'x'"):
        read_messages(f"{path}#x")
    assert list(theirs.iterdump()) == before
    count = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5001)"
    row = "select 'long', checkpoint_ns, 'z' || i, null, type, checkpoint, metadata"
    only = "where rowid = (select max(rowid) from checkpoints)"
    theirs.execute(f"insert into checkpoints {count} {row} from checkpoints, n {only}")
    theirs.commit()
    assert [thread.id for thread in read_threads(str(path))] == ["long", "t"]
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("create table facts (n integer)")
    with pytest.raises(UserError, match="no database of checkpoints"):
        read_messages(f"{other}#t")


BAD = ["{", "[]", '{"a": 1}', "3", '[{"role": "king", "content": "x"}]', '[{"lc": 1}]']
RESULT = {"type": "tool_result", "tool_use_id": "c"}
BAD += [json.dumps([{"role": "user", "content": [RESULT]}])]
INSPECT = {"id": "c", "function": "read", "arguments": {"n": 1}}
BAD += [json.dumps([{"role": "assistant", "content": "", "tool_calls": [INSPECT]}])]


@pytest.mark.parametrize("bad", BAD)
def test_what_is_none_is_one_line(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(bad)
    with pytest.raises(UserError):
        read_messages(str(path))
