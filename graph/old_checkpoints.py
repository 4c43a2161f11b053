"""Checkpoints as version 0.1.0 wrote them: a SQLite file is converted once, a PostgreSQL one refused.

That version kept a thread's large values in a table of parts, under their hashes, and had checkpoints
name them by number.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.sqlite import DAMAGE

_CHECKPOINT, _WRITES, _NAMED = "parts1", "writes1", "part"
_LIST, _MAP = 1, 2
_REFUSED = (
    "these checkpoints were written by Stategate 0.1.0: open their SQLite file for writing once, which"
    " converts it; in PostgreSQL drop the tables checkpoints, checkpoint_blobs, checkpoint_writes and"
    " checkpoint_migrations, or name another database"
)

_INSERT_WRITE = """insert into writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path,
idx, channel, type, value) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class Serializer(JsonPlusSerializer):
    """LangGraph's serialiser, making nothing but plain values, arrays and messages of a checkpoint.

    LangGraph's own default calls whatever function the file names, so that a checkpoint from elsewhere
    runs code.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """See LangGraph. Raises ``UserError`` for the types of version 0.1.0."""
        if data[0] in (_CHECKPOINT, _WRITES, _NAMED):
            raise UserError(_REFUSED)
        return super().loads_typed(data)


def require_current_version(channel_version: Any) -> Any:
    """Return a channel's version. Raises ``UserError`` for one in PostgreSQL that 0.1.0 counted."""
    if channel_version is not None and "." not in str(channel_version):
        raise UserError(_REFUSED)
    return channel_version


def convert(db: sqlite3.Connection, serde: SerializerProtocol) -> None:
    """Rewrite a file of version 0.1.0 as LangGraph's own saver writes it, in one transaction."""
    if not _is_old(db) or db.execute("pragma query_only").fetchone()[0]:
        return
    with user_error_context("cannot convert these checkpoints", "name another file", DAMAGE), db:
        db.execute("begin immediate")
        if not _is_old(db):  # another process was first
            return
        old = _Parts(db, serde)
        query = "select rowid, checkpoint_id, checkpoint from checkpoints where type = ?"
        for row, name, body in db.execute(query, (_CHECKPOINT,)).fetchall():
            plain = serde.dumps_typed(old.checkpoint(name, body))
            db.execute(
                "update checkpoints set type = ?, checkpoint = ? where rowid = ?", (*plain, row)
            )
        query = (
            "select rowid, thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, value"
            " from writes where type = ?"
        )
        for row, *where, body in db.execute(query, (_WRITES,)).fetchall():
            db.execute("delete from writes where rowid = ?", (row,))
            for place, (channel, child) in enumerate(serde.loads_typed(("msgpack", body))):
                values = (*where, place, channel, *serde.dumps_typed(old.value(child)))
                db.execute(_INSERT_WRITE, values)
        db.execute("drop table parts")


def _is_old(db: sqlite3.Connection) -> bool:
    return bool(db.execute("select 1 from sqlite_master where name = 'parts'").fetchone())


class _Parts:
    """Reads what stands for a value: ``[value]`` where it was small, else the number of its part."""

    def __init__(self, db: sqlite3.Connection, serde: SerializerProtocol) -> None:
        self._db = db
        self._serde = serde

    def value(self, child: Any) -> Any:
        if not isinstance(child, int):
            return child[0]
        query = "select form, type, body from parts where id = ?"
        form, kind, body = self._db.execute(query, (child,)).fetchone()
        value = self._serde.loads_typed((kind, body))
        if form == _LIST:
            return [self.value(item) for item in value]
        return {k: self.value(v) for k, v in value.items()} if form == _MAP else value

    def checkpoint(self, name: str, body: bytes) -> Mapping[str, Any]:
        v, ts, names, versions, seen, seen_versions, updated, values, more = (
            self._serde.loads_typed(("msgpack", body))
        )
        channels = self.value(names)
        nodes, pairs = self.value(seen)
        versions_seen: dict[str, dict[str, str]] = {node: {} for node in nodes}
        for (node, channel), version in zip(pairs, seen_versions, strict=True):
            versions_seen[nodes[node]][channel] = _version(version)
        known = zip(channels, versions, strict=True)
        return {
            "v": v,
            "ts": ts,
            "id": name,
            "channel_values": {channels[i]: self.value(child) for i, child in values},
            "channel_versions": {c: _version(one) for c, one in known if one is not None},
            "versions_seen": versions_seen,
            "updated_channels": None if updated is None else [channels[i] for i in updated],
            **more,
        }


def _version(count: Any) -> str:
    """Return a channel's version as LangGraph's saver counts it; 0.1.0 wrote whole numbers."""
    return count if isinstance(count, str) else f"{count:032}.{0:016}"
