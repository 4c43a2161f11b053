"""Threads of other agents, read from exported files or from checkpoint databases."""

import gzip
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from langchain_core.messages import BaseMessage, convert_to_messages, messages_from_dict
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call

from stategate.envs.messages.needs import calls_in
from stategate.graph.checkpoints import LockedSaver, open_for_reading, open_postgres
from stategate.stores.errors import UNREADABLE, UserError, user_error_context, warn_once
from stategate.stores.files import parse_json, user_path
from stategate.stores.progress import Progress
from stategate.stores.sql import is_sqlite

_EXPORT = '[{"role": "user", "content": …}, …], or {"messages": […]}'
#: Keys under which a record keeps its messages, or what holds them.
_KEYS = ("messages", "values", "channel_values", "traj", "history", "outputs")


class Thread(NamedTuple):
    """An agent's messages on one thread, and the task that they are about."""

    id: str
    task: str
    messages: list[BaseMessage]


def read_messages(where: str) -> list[BaseMessage]:
    """Return the messages of the one thread that ``where`` holds or names (see :func:`read_threads`).

    Raises ``UserError`` for none or several.
    """
    threads = read_threads(where)
    if len(threads) > 1:
        listed = ", ".join(thread.id for thread in threads)
        how = "name a thread after a #: a database's by its id, a file's by its number"
        raise UserError(f"{how}; in '{where}' there are: {listed[:300]}")
    return threads[0].messages


def read_threads(where: str) -> list[Thread]:
    """Return the threads of ``where`` that hold a message of a model.

    ``where`` is JSON lines of threads (.gz too), a JSON file of one or several, or a checkpoint
    database (``FILE.sqlite``, ``postgresql://…``). ``FILE#3`` is the third thread of a file,
    ``DATABASE#ID`` one of a database. Threads of one "task" are not independent. Raises ``UserError``.
    """
    source, _, selected = where.partition("#")
    threads = [thread for thread in _threads(source, selected) if calls_in(thread.messages)]
    if not threads:
        raise UserError(f"'{source}' holds no thread in which a model said something")
    return threads


def _threads(source: str, selected: str) -> list[Thread]:
    """Return the threads of a file or database, or only the ``selected`` one."""
    if (saver := _saver(source)) is not None:
        ids = [selected] if selected else saver.thread_ids()
        return [_saved(saver, source, id_) for id_ in Progress(ids, "read", unit="thread")]
    threads: dict[str, Thread] = {}
    problems: list[UserError] = []
    records = _records(source)
    for number, line in enumerate(records, 1):
        if selected not in ("", str(number)):
            continue
        record = line if isinstance(line, Mapping) else {}
        id_ = str(record.get("id", number))
        id_ = f"{id_}#{number}" if id_ in threads else id_
        task = str(record.get("task", record.get("task_id", id_)))
        try:
            threads[id_] = Thread(id_, task, from_plain(line, f"{source}, thread {number}"))
        except UserError as error:
            problems.append(error)
    if not threads and problems:
        raise problems[0]
    if not threads:
        raise UserError(f"there is no thread '{selected}' in '{source}', which has {len(records)}")
    if problems:
        warn_once(f"skipped {len(problems)} of {len(records)} threads: {problems[0]}")
    return list(threads.values())


def from_plain(values: object, name: str = "the export") -> list[BaseMessage]:
    """Return the messages of an export: a list in OpenAI's or LangChain's form, or a mapping to one.

    A mapping holds it under one of ``_KEYS``. Raises ``UserError``.
    """
    while isinstance(values, Mapping):
        values = next((values[key] for key in _KEYS if values.get(key)), None)
    if not isinstance(values, list) or not values:
        raise UserError(f"'{name}' holds no messages: export them as {_EXPORT}")
    messages: list[BaseMessage] = []
    for number, row in enumerate(values, 1):
        what, how = f"message {number} of '{name}' cannot be read", f"export them as {_EXPORT}"
        with user_error_context(what, how, (*UNREADABLE, NotImplementedError)):
            messages += _messages(row)
    return messages


def _is_message(row: object) -> bool:
    return isinstance(row, Mapping) and ("role" in row or "type" in row or "lc" in row)


def _messages(row: object) -> list[BaseMessage]:
    """Return the messages of one row; one with ``data`` is of LangChain's ``messages_to_dict``."""
    if not isinstance(row, Mapping) or not _is_message(row):
        raise ValueError("it has no role")
    if "role" not in row and isinstance(row.get("data"), Mapping):
        return messages_from_dict([dict(row)])
    content, calls = row.get("content"), row.get("tool_calls") or ()
    blocks = content if isinstance(content, list) else ()
    types = [block.get("type") for block in blocks if isinstance(block, Mapping)]
    is_foreign = any(isinstance(call.get("function"), str) for call in calls)
    if is_foreign or "tool_result" in types or row.get("function_call"):
        raise ValueError("tools are read in OpenAI's form: tool_calls, role tool, tool_call_id")
    row = {"content": content, **row} if calls else row  # beside calls it may be missing
    broken = [c for c in calls if "function" in c and not _is_object(c["function"]["arguments"])]
    if not broken:
        return convert_to_messages([dict(row)])
    readable = [call for call in calls if call not in broken]
    invalid = [make_invalid_tool_call(call, "its arguments are no JSON object") for call in broken]
    messages = convert_to_messages([{**row, "tool_calls": readable}])
    return [m.model_copy(update={"invalid_tool_calls": invalid}) for m in messages]


def _is_object(args: object) -> bool:
    """Say whether a call's arguments are a JSON object: models write other JSON, too."""
    try:
        return isinstance(json.loads(args, strict=False) if isinstance(args, str) else args, dict)
    except ValueError:
        return False


def _records(source: str) -> list[object]:
    """Return the threads of a file: its JSON lines, the items of its JSON list, or its one value."""
    with user_error_context(f"cannot read messages from '{source}'", f"name a file of {_EXPORT}"):
        raw = user_path(source).read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    try:
        values = parse_json(text)
    except ValueError:
        values = [line for line in text.split("\n") if line.strip()]
        for i, line in enumerate(values):
            with suppress(ValueError):  # a line that was cut off stays a text
                values[i] = parse_json(line)
        if all(isinstance(value, str) for value in values):
            raise UserError(f"'{source}' is no JSON: export messages as {_EXPORT}") from None
    is_many = isinstance(values, list) and values and not any(map(_is_message, values))
    return list(values) if is_many else [values]


def _saver(source: str) -> LockedSaver | None:
    """Return the saver of a checkpoint database, None for another file."""
    if source.startswith(("postgresql://", "postgres://")):
        return open_postgres(source, create=False)
    path = user_path(source)
    with user_error_context(f"cannot read messages from '{source}'", f"name a file of {_EXPORT}"):
        return open_for_reading(path) if is_sqlite(path) else None


def _saved(saver: LockedSaver, source: str, id_: str) -> Thread:
    snapshot = saver.get_tuple({"configurable": {"thread_id": id_, "checkpoint_ns": ""}})
    if snapshot is None:
        raise UserError(f"there is no thread '{id_}' in '{source}'")
    return Thread(id_, id_, list(snapshot.checkpoint["channel_values"].get("messages") or ()))
