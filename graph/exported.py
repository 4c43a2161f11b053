"""Another agent's thread, read from an exported file or from the checkpoints where it lies."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages, messages_from_dict

from graph.checkpoints import open_saver
from stores.errors import UserError

_EXPORT = "[{'role': 'user', 'content': …}, …], or {'messages': […]}"


def read_messages(where: str) -> list[BaseMessage]:
    """Return the messages of a thread.

    ``where`` is a JSON file of messages (OpenAI's form, LangChain's own, or the values of a state), or
    a checkpoint database and a thread's id: ``FILE.sqlite#THREAD``, ``postgresql://…#THREAD``. Raises
    ``UserError`` for anything else.
    """
    place, _, thread = where.partition("#")
    if place.startswith(("postgresql://", "postgres://")) or _is_sqlite(Path(place)):
        return _of_thread(place, thread)
    try:
        values = json.loads(Path(place).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read messages from '{place}' ({error})") from None
    except ValueError:
        raise UserError(f"'{place}' is no JSON: export messages as {_EXPORT}") from None
    return from_plain(values, place)


def from_plain(values: Any, name: str = "the export") -> list[BaseMessage]:
    """Return messages from plain values. Raises ``UserError`` where they are none."""
    if isinstance(values, Mapping):
        values = values.get("messages", values.get("values"))
        if isinstance(values, Mapping):
            values = values.get("messages")
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise UserError(f"'{name}' holds no messages: export them as {_EXPORT}")
    try:
        if all(isinstance(row, Mapping) and {"type", "data"} <= row.keys() for row in values):
            return messages_from_dict([dict(row) for row in values])
        return convert_to_messages([_spoken(row) for row in values])
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        problem = " ".join(str(error).split())[:160]
        raise UserError(f"'{name}' holds a message that nobody can read ({problem})") from None


def _spoken(row: Any) -> Any:
    """Return a row as LangChain reads it: a message dumped by pydantic has a type, no role."""
    if isinstance(row, Mapping) and "role" not in row and "type" in row:
        known = {"human": "user", "ai": "assistant"}
        return {**row, "role": known.get(str(row["type"]), row["type"])}
    return row


def _is_sqlite(path: Path) -> bool:
    try:
        with path.expanduser().open("rb") as file:
            return file.read(15) == b"SQLite format 3"
    except OSError:
        return False


def _of_thread(place: str, thread: str) -> list[BaseMessage]:
    saver = open_saver(place)
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
