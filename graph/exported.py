"""Another agent's thread, read from an exported file or from the checkpoints where it lies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages, messages_from_dict

from stategate.graph.checkpoints import open_for_reading, open_saver
from stategate.stores.errors import UNREADABLE, UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.sql import is_sqlite

_EXPORT = "[{'role': 'user', 'content': …}, …], or {'messages': […]}"
#: Keys under which a record keeps its messages.
_KEYS = ("messages", "values", "channel_values", "traj", "history")


def read_messages(where: str) -> list[BaseMessage]:
    """Return the messages of a thread.

    ``where`` is a JSON file (see :func:`from_plain`), JSON lines (messages, or threads: ``FILE#2``), or
    a checkpoint database and a thread's id: ``FILE.sqlite#THREAD``, ``postgresql://…#THREAD``. Raises
    ``UserError`` for anything else.
    """
    place, _, thread = where.partition("#")
    path = Path(place).expanduser()
    if place.startswith(("postgresql://", "postgres://")):
        return _of_thread(open_saver(place), place, thread)
    with user_error_context(f"cannot read messages from '{place}'"):
        if is_sqlite(path):
            return _of_thread(open_for_reading(path), place, thread)
        text = path.read_text(encoding="utf-8-sig")
    return from_plain(_loaded(text, place, thread), place)


def from_plain(values: Any, name: str = "the export") -> list[BaseMessage]:
    """Return messages from plain values. Raises ``UserError`` where they are none.

    Read are lists of messages in OpenAI's chat form or LangChain's, and records that hold such a list
    under "messages", "values", "traj" or "history".
    """
    kinds = (*UNREADABLE, NotImplementedError)
    with user_error_context(f"'{name}' holds a message that nobody can read", kinds=kinds):
        rows = _rows(values)
        if not rows:
            raise UserError(f"'{name}' holds no messages: export them as {_EXPORT}")
        return [message for row in rows for message in _messages(row)]


def _rows(values: Any) -> list[Any]:
    """Return the messages somewhere in ``values``; [] where there are none."""
    if isinstance(values, Mapping):
        return next(filter(None, (_rows(values.get(key)) for key in _KEYS)), [])
    if isinstance(values, Sequence) and not isinstance(values, str):
        if values and all(_is_message(row) for row in values):
            return list(values)
        return next(filter(None, map(_rows, values)), [])  # snapshots, the latest first
    return []


def _is_message(row: Any) -> bool:
    return isinstance(row, Mapping) and ("role" in row or "type" in row or "lc" in row)


def _messages(row: Mapping[str, Any]) -> list[BaseMessage]:
    if "role" not in row and isinstance(row.get("data"), Mapping):
        return messages_from_dict([dict(row)])
    return convert_to_messages([dict(row)])


def _loaded(text: str, place: str, which: str) -> Any:
    """Return the JSON of a file; of JSON lines the messages, or thread ``which`` (from 1)."""
    try:
        return parse_json(text)
    except ValueError:
        pass
    try:
        lines = [parse_json(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        raise UserError(f"'{place}' is no JSON: export messages as {_EXPORT}") from None
    if all(_is_message(line) for line in lines):
        return lines
    if which.isdecimal() and 1 <= int(which) <= len(lines):
        return lines[int(which) - 1]
    raise UserError(f"'{place}' holds {len(lines)} threads: name one as '{place}#1'")


def _of_thread(saver: Any, place: str, thread: str) -> list[BaseMessage]:
    if not thread:
        rows = saver.list(None, limit=500)
        known = dict.fromkeys(str(row.config["configurable"]["thread_id"]) for row in rows)
        listed = ", ".join(known) or "none"
        raise UserError(f"name a thread after a #, such as '{place}#ID'; there are: {listed[:300]}")
    found = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    if found is None:
        raise UserError(f"there is no thread '{thread}' in '{place}'")
    messages = found.checkpoint["channel_values"].get("messages")
    if not messages:
        raise UserError(f"thread '{thread}' holds no messages")
    return list(messages)
