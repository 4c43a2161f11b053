"""Other agents' threads, read from exported files or from the checkpoints where they lie."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages, messages_from_dict
from langgraph.checkpoint.base import BaseCheckpointSaver

from stategate.envs.messages.needs import calls_in
from stategate.graph.checkpoints import open_for_reading, open_saver
from stategate.stores.errors import UNREADABLE, UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.sql import is_sqlite

_EXPORT = "[{'role': 'user', 'content': …}, …], or {'messages': […]}"
#: Keys under which a record keeps its messages, or what holds them.
_KEYS = ("messages", "values", "channel_values", "traj", "history")


def read_messages(where: str) -> list[BaseMessage]:
    """Return the messages of a thread.

    ``where`` is a JSON file (see :func:`from_plain`), JSON lines (messages, or threads: ``FILE#2``), or
    a checkpoint database and a thread's id: ``FILE.sqlite#THREAD``, ``postgresql://…#THREAD``. Raises
    ``UserError`` for anything else.
    """
    place, _, thread = where.partition("#")
    if (saver := _saver(place)) is not None:
        return _of_thread(saver, place, thread)
    records = _records(place)
    if len(records) > 1 and not (thread.isdecimal() and 1 <= int(thread) <= len(records)):
        raise UserError(f"'{place}' holds {len(records)} threads: name one as '{place}#1'")
    return from_plain(records[int(thread) - 1 if len(records) > 1 else 0], place)


def read_threads(where: str) -> list[tuple[str, str, list[BaseMessage]]]:
    """Return (id, task, messages) of each thread in which a model said something.

    ``where`` is JSON lines of threads (.gz too), a JSON file of one or several, or a checkpoint
    database, all of its threads or one. Threads of one "task" hang together. Raises ``UserError``.
    """
    place, _, thread = where.partition("#")
    records: list[tuple[str, str, list[BaseMessage]]] = []
    if (saver := _saver(place)) is not None:
        names = [thread] if thread else _thread_names(saver)
        records = [(name, name, _of_thread(saver, place, name)) for name in names]
    else:
        for number, line in enumerate(_records(place), 1):
            record = line if isinstance(line, Mapping) else {}
            name = str(record.get("id", number))
            messages = from_plain(line, f"{place}, thread {number}")
            task = record.get("task", record.get("task_id", name))
            records.append((name, str(task), messages))
    threads: dict[str, tuple[str, str, list[BaseMessage]]] = {}
    for number, (name, task, messages) in enumerate(records, 1):
        name = f"{name}#{number}" if name in threads else name
        if calls_in(messages):
            threads[name] = (name, task, messages)
    if not threads:
        raise UserError(f"'{place}' holds no thread in which a model said something")
    return list(threads.values())


def from_plain(values: object, name: str = "the export") -> list[BaseMessage]:
    """Return messages from plain values. Raises ``UserError`` where they are none.

    Read are lists of messages in OpenAI's chat form or LangChain's, and mappings that hold such a list
    under "messages", "values", "traj" or "history".
    """
    while isinstance(values, Mapping):
        values = next((values[key] for key in _KEYS if values.get(key)), None)
    if not isinstance(values, list) or not values or not all(map(_is_message, values)):
        raise UserError(f"'{name}' holds no messages: export them as {_EXPORT}")
    kinds = (*UNREADABLE, NotImplementedError)
    with user_error_context(f"'{name}' holds a message that nobody can read", kinds=kinds):
        return [message for row in values for message in _messages(row)]


def _is_message(row: object) -> bool:
    return isinstance(row, Mapping) and ("role" in row or "type" in row or "lc" in row)


def _messages(row: Mapping[str, object]) -> list[BaseMessage]:
    """Return the messages of one row; ``messages_to_dict`` writes LangChain's with their ``data``."""
    if "role" not in row and isinstance(row.get("data"), Mapping):
        return messages_from_dict([dict(row)])
    if "'tool_result'" in repr(row.get("content")) or "function_call" in row:
        raise ValueError("results of tools are read in OpenAI's form: role tool, tool_call_id")
    return convert_to_messages([dict(row)])


def _records(place: str) -> list[object]:
    """Return the threads of a file: its lines, the members of its list, or it alone."""
    path = Path(place).expanduser()
    with user_error_context(f"cannot read messages from '{place}'"):
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    try:
        values = parse_json(text)
    except ValueError:
        try:
            values = [parse_json(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise UserError(f"'{place}' is no JSON: export messages as {_EXPORT}") from None
    is_many = isinstance(values, list) and values and not any(map(_is_message, values))
    return list(values) if is_many else [values]


def _saver(place: str) -> BaseCheckpointSaver[Any] | None:
    """Return the saver of a checkpoint database, None for another file."""
    if place.startswith(("postgresql://", "postgres://")):
        return open_saver(place)
    path = Path(place).expanduser()
    with user_error_context(f"cannot read messages from '{place}'"):
        return open_for_reading(path) if is_sqlite(path) else None


def _thread_names(saver: BaseCheckpointSaver[Any]) -> list[str]:
    rows = saver.list(None, limit=5000)
    return list(dict.fromkeys(str(row.config["configurable"]["thread_id"]) for row in rows))


def _of_thread(saver: BaseCheckpointSaver[Any], place: str, thread: str) -> list[BaseMessage]:
    if not thread:
        listed = ", ".join(_thread_names(saver)) or "none"
        raise UserError(f"name a thread after a #, such as '{place}#ID'; there are: {listed[:300]}")
    snapshot = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if snapshot is None:
        raise UserError(f"there is no thread '{thread}' in '{place}'")
    messages = snapshot.checkpoint["channel_values"].get("messages")
    if not messages:
        raise UserError(f"thread '{thread}' holds no messages")
    return list(messages)
