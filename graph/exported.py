"""Another agent's thread, read from an exported file or from the checkpoints where it lies."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
    messages_from_dict,
)

from stategate.graph.checkpoints import SqliteCheckpoints, open_saver
from stategate.stores.errors import UNREADABLE, UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.sqlite import is_sqlite

_EXPORT = "[{'role': 'user', 'content': …}, …], or {'messages': […]}"


def read_messages(where: str) -> list[BaseMessage]:
    """Return the messages of a thread.

    ``where`` is a JSON file (see :func:`from_plain`), JSON lines (messages, or threads: ``FILE#2``), or
    a checkpoint database and a thread's id: ``FILE.sqlite#THREAD``, ``postgresql://…#THREAD``. Raises
    ``UserError`` for anything else.
    """
    place, _, thread = where.partition("#")
    if place.startswith(("postgresql://", "postgres://")) or _is_sqlite(Path(place)):
        return _of_thread(place, thread)
    with user_error_context(f"cannot read messages from '{place}'"):
        text = Path(place).expanduser().read_text(encoding="utf-8-sig")
    return from_plain(_loaded(text, place, thread), place)


def from_plain(values: Any, name: str = "the export") -> list[BaseMessage]:
    """Return messages from plain values. Raises ``UserError`` where they are none.

    Read are lists of messages (OpenAI's chat and Responses forms, Anthropic's, LangChain's three), the
    same under "messages", a graph's state or ``get_state`` (also as a list), and LangSmith's runs.
    """
    kinds = (*UNREADABLE, NotImplementedError)
    with user_error_context(f"'{name}' holds a message that nobody can read", kinds=kinds):
        rows = _rows(values)
        if not rows:
            raise UserError(f"'{name}' holds no messages: export them as {_EXPORT}")
        found = [message for row in rows for message in _messages(row)]
        return _joined(found) if any(row.get("type") in _ITEMS for row in rows) else found


# Where the messages are ---------------------------------------------------------------------------


def _rows(values: Any) -> list[Any]:
    """Return the messages somewhere in ``values``, in whatever form; [] where there are none."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        if values and all(_is_message(row) for row in values):
            return list(values)
        # A batch of one, a snapshot as the tuple that it is, or snapshots, the latest first.
        found = (_rows(one) for one in values if isinstance(one, Mapping | list))
        return next((rows for rows in found if rows), [])
    if not isinstance(values, Mapping):
        return []
    asked, said = values.get("inputs"), values.get("outputs")
    if isinstance(asked, Mapping) or isinstance(said, Mapping):  # a run
        before, after = _rows(asked), _rows(said)
        is_whole = _ids(before) <= _ids(after) if _ids(before) else len(after) > len(before)
        return after if is_whole and after else [*before, *after]
    for key in ("messages", "values", "channel_values", "input", "output", "generations"):
        rows = _rows(values.get(key))
        if rows:
            lead = values.get("system") or values.get("instructions") if key != "values" else None
            first = [{"role": "system", "content": lead}] if lead else []
            return [*first, *rows, *_replies(values, key)]
    return _replies(values, "")


def _replies(values: Mapping[str, Any], key: str) -> list[Any]:
    """Return what a logged call answered: beside its messages, or alone."""
    found: list[Any] = []
    if key == "input":
        found = _rows(values.get("output"))
    if isinstance(response := values.get("response"), Mapping):
        found = found or _rows(response) or ([response] if _is_message(response) else [])
    choices = values.get("choices")
    if isinstance(choices, Sequence) and choices and isinstance(choices[0], Mapping):
        found = [choices[0].get("message")]
    return [*found, values["message"]] if _is_message(values.get("message")) else found


def _ids(rows: Sequence[Any]) -> set[str]:
    ids = {str(r.get("id") or (r.get("kwargs") or {}).get("id") or "") for r in rows}
    return ids - {""}


def _is_message(row: Any) -> bool:
    if not isinstance(row, Mapping):
        return False
    if row.get("lc") and isinstance(row.get("kwargs"), Mapping):
        return str(row.get("id", [""])[-1]).removesuffix("Chunk") in _CLASSES
    if "role" in row or row.get("type") in _ITEMS:
        return True
    return row.get("type") in _TYPES and ("content" in row or "data" in row)


# Each form ----------------------------------------------------------------------------------------

_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "ChatMessage": "chat",
    "FunctionMessage": "function",
}
_TYPES = {*_CLASSES.values(), "AIMessageChunk", "HumanMessageChunk", "ToolMessageChunk"}
_ITEMS = ("function_call", "function_call_output", "reasoning", "message")


def _messages(row: Mapping[str, Any]) -> list[BaseMessage]:
    """Return the message(s) that a row holds."""
    if row.get("lc"):
        kind = _CLASSES[str(row["id"][-1]).removesuffix("Chunk")]
        return messages_from_dict([{"type": kind, "data": dict(row["kwargs"])}])
    if "role" not in row and isinstance(row.get("data"), Mapping):
        return messages_from_dict([dict(row)])
    if "role" not in row and row.get("type") in _TYPES:
        kind = str(row["type"]).removesuffix("MessageChunk").lower()
        return messages_from_dict([{"type": kind, "data": {**row, "type": kind}}])
    if row.get("type") in _ITEMS:
        return _of_item(row)
    blocks = row.get("content")
    if isinstance(blocks, Sequence) and not isinstance(blocks, str):
        kinds = {block.get("type") for block in blocks if isinstance(block, Mapping)}
        if kinds & {"tool_use", "tool_result"}:
            return _of_anthropic(str(row["role"]), blocks)
        row = {**row, "content": _texts(blocks)}
    return convert_to_messages([dict(row)])


def _of_item(row: Mapping[str, Any]) -> list[BaseMessage]:
    """Return an item of OpenAI's Responses as a message of its own."""
    if row["type"] == "message":
        return convert_to_messages([{"role": row["role"], "content": _texts(row["content"])}])
    if row["type"] == "reasoning":
        return [AIMessage([dict(row)], id=row.get("id"))]
    name = str(row["call_id"])
    if row["type"] == "function_call_output":
        return [ToolMessage(_texts(row["output"]), tool_call_id=name)]
    args = parse_json(row.get("arguments") or "{}")
    return [AIMessage("", tool_calls=[{"name": row["name"], "args": args, "id": name}])]


def _of_anthropic(role: str, blocks: Sequence[Any]) -> list[BaseMessage]:
    """Return an assistant's message with its calls; a user's as results, and what else it says."""
    if role == "assistant":
        calls = [
            {"name": block["name"], "args": block.get("input") or {}, "id": block["id"]}
            for block in blocks
            if isinstance(block, Mapping) and block.get("type") == "tool_use"
        ]
        return [AIMessage(list(blocks), tool_calls=calls)]
    made: list[BaseMessage] = []
    rest: list[Any] = []
    for block in blocks:
        if isinstance(block, Mapping) and block.get("type") == "tool_result":
            status = "error" if block.get("is_error") else "success"
            content = _texts(block.get("content") or "")
            made.append(ToolMessage(content, tool_call_id=block["tool_use_id"], status=status))
        else:
            rest.append(block)
    return [*made, HumanMessage(rest)] if rest else made


def _texts(content: Any) -> Any:
    """Return text blocks of any name as text blocks; what is no list stays."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        return content
    return [
        {"type": "text", "text": block["text"]}
        if isinstance(block, Mapping) and str(block.get("type")).endswith("_text")
        else block
        for block in content
    ]


def _joined(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Let calls that follow each other without a result between them be one message's."""
    joined: list[BaseMessage] = []
    for message in messages:
        last = joined[-1] if joined else None
        if (
            isinstance(message, AIMessage)
            and isinstance(last, AIMessage)
            and (message.tool_calls or (last.content and not last.tool_calls))
        ):
            content = [*_listed(last.content), *_listed(message.content)]
            calls = [*last.tool_calls, *message.tool_calls]
            joined[-1] = AIMessage(content, tool_calls=calls, id=last.id)
        else:
            joined.append(message)
    return joined


def _listed(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


# Files and databases ------------------------------------------------------------------------------


def _loaded(text: str, place: str, which: str) -> Any:
    """Return the JSON of a file; of JSON lines the messages, or thread ``which`` (from 1)."""
    try:
        return parse_json(text)
    except ValueError:
        pass
    try:
        lines = [parse_json(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        lines = []
    if not lines:
        raise UserError(f"'{place}' is no JSON: export messages as {_EXPORT}")
    if all(_is_message(line) for line in lines):
        return lines
    if which.isdecimal() and 1 <= int(which) <= len(lines):
        return lines[int(which) - 1]
    if len(lines) == 1:
        return lines[0]
    raise UserError(f"'{place}' holds {len(lines)} threads: name one as '{place}#1'")


def _is_sqlite(path: Path) -> bool:
    try:
        return is_sqlite(path.expanduser())
    except OSError:
        return False


def _reader(path: Path) -> SqliteCheckpoints:
    """Open somebody's database to look into it: nothing is made there, and nothing changed."""
    with user_error_context(f"'{path}' is no database of checkpoints", kinds=sqlite3.Error):
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        saver = SqliteCheckpoints(db)
        saver.is_setup = True
        db.execute("select 1 from checkpoints")
    return saver


def _of_thread(place: str, thread: str) -> list[BaseMessage]:
    saver = _reader(Path(place).expanduser()) if _is_sqlite(Path(place)) else open_saver(place)
    if not thread:
        known = [
            str(row.config["configurable"]["thread_id"]) for row in saver.list(None, limit=500)
        ]
        listed = ", ".join(dict.fromkeys(known)) or "none"
        raise UserError(f"name a thread after a #, such as '{place}#ID'; there are: {listed[:300]}")
    found = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if found is None:
        raise UserError(f"there is no thread '{thread}' in '{place}'")
    messages = found.checkpoint["channel_values"].get("messages")
    if not messages:
        raise UserError(f"thread '{thread}' holds no messages")
    return list(messages)
