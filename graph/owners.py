"""Whose a served call is: its long-term memory is the caller's, and it names no places of the server.

A server that knows its callers (``graph.serving``) says who asks in the run's config; without one it is
the ``user_id`` of the config, or the thread alone. What a caller may
swap for one call are nodes and their settings, not files, databases or other servers.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from stategate.graph.config import PLACES, Config
from stategate.nodes.retrieval.memory import MemoryPlace
from stategate.stores.errors import UserError

#: The caller of a server without accounts: this machine's own user.
LOCAL = "local"
#: What a caller may name only as the server's config does: others' documents and experience.
_SHARED = ("bank", "corpus", "questions")
_LONGEST = 190  # letters of a thread's name that a user's has room for


def caller_of(configurable: Mapping[str, Any]) -> str | None:
    """Return the account that asks, None where there are no accounts."""
    user = configurable.get("langgraph_auth_user_id")
    return None if user in (None, LOCAL) else str(user)


def owner_of(configurable: Mapping[str, Any]) -> str:
    """Return whose memory it is where the config names nobody: the ``user_id``'s, else the thread's.

    So that two threads share nothing unless their caller says that they are one user's. An account's
    is its own, whoever it says it is.
    """
    if user := caller_of(configurable) or configurable.get("user_id"):
        return str(user)
    thread = str(configurable.get("thread_id") or "")
    if len(thread) > _LONGEST:
        thread = hashlib.sha256(thread.encode("utf-8", "replace")).hexdigest()
    return f"thread {thread}" if thread else ""


def require_no_places(overrides: Any, config: Config) -> None:
    """Check what a caller swaps for one call. Raises ``UserError`` where it is the server's to say.

    That is where things lie, which documents and experience are read, and what is written down.
    """
    if overrides is None:
        return
    own = {str(value) for _, value in _named(config.model_dump())}
    for name, value in _named(overrides.model_dump(exclude_unset=True)):
        text = str(value)
        is_place = (
            name == "base_url"
            or any(c in text for c in "/\\$")
            or text.startswith(("~", "."))
            or (name in _SHARED and text not in own)
        )
        if value is not None and is_place:
            raise UserError(f"'{name}' is the server's to set, not a caller's")
    kinds = {params.kind for params in config.memory}
    for params in overrides.memory or ():
        if params.kind not in kinds:
            raise UserError(f"'memory: {params.kind}' is the server's to set, not a caller's")


def for_user(config: Config, user: str) -> Config:
    """Return ``config`` with every part of long-term memory being ``user``'s."""
    return with_memory(config, lambda place: place.model_copy(update={"user": user}))


def with_memory(config: Config, change: Callable[[MemoryPlace], MemoryPlace]) -> Config:
    """Return ``config`` with what ``change`` makes of each place of long-term memory that it names."""

    def changed(value: Any) -> Any:
        if isinstance(value, MemoryPlace):
            return change(value)
        if isinstance(value, list | tuple):
            return type(value)(changed(one) for one in value)
        if not isinstance(value, BaseModel):
            return value
        before = {name: getattr(value, name) for name in type(value).model_fields}
        after = {name: changed(one) for name, one in before.items()}
        new = {name: one for name, one in after.items() if one != before[name]}
        return value.model_copy(update=new) if new else value

    after: Config = changed(config)
    return after


def _named(values: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _named(value, str(name))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _named(value, key)
    elif key in PLACES:
        yield key, values
