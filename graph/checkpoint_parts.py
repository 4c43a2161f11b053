"""Checkpoints by reference: what a thread's checkpoints have in common is written once.

LangGraph's SQLite saver writes every channel's whole value with every checkpoint, five times a step,
and again as a node's result. Here a value of over :data:`INLINE` bytes is a *part*, found by its
hash in its thread; a long list or mapping is a part that names its items' parts, so that a list that
grew by one costs one item. A checkpoint is left with small values, versions, and numbers of parts.

Nothing is compressed: what was written can be searched for, byte by byte.
"""

import hashlib
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stategate.graph.postgres_parts import REF
from stategate.stores.errors import UserError

#: Bytes up to which a value stands where it is used.
INLINE = 48
#: Bytes from which a list or a mapping is taken apart.
_DIVIDED = 512
CHECKPOINT, WRITES = "parts1", "writes1"
_LEAF, _LIST, _MAP = 0, 1, 2
SCHEMA = """
create table if not exists parts (
    id integer primary key autoincrement, thread_id text not null, hash blob not null,
    form integer not null, type text not null, body blob not null
);
create unique index if not exists parts_by_hash on parts (thread_id, hash);
"""
_WHOLE = (
    "v",
    "ts",
    "id",
    "channel_values",
    "channel_versions",
    "versions_seen",
    "updated_channels",
)


class Packed(dict[str, Any]):
    """What is written of a checkpoint: ``id`` and ``body``, plain values and numbers of parts."""


class PackedWrites(list[Any]):
    """A task's results: ``[channel, child]`` pairs."""


class PartsSerde(JsonPlusSerializer):
    """Writes packed checkpoints under types of their own; everything else as LangGraph does."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """See LangGraph."""
        if isinstance(obj, Packed):
            return CHECKPOINT, super().dumps_typed(obj["body"])[1]
        if isinstance(obj, PackedWrites):
            return WRITES, super().dumps_typed(list(obj))[1]
        return super().dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """See LangGraph."""
        kind, body = data
        if kind == CHECKPOINT:
            return Packed(body=super().loads_typed(("msgpack", body)))
        if kind == WRITES:
            return PackedWrites(super().loads_typed(("msgpack", body)))
        if kind == REF:
            raise UserError("a checkpoint in the database is not whole: start another thread")
        return super().loads_typed(data)


class Parts:
    """The parts of one thread. Whoever writes holds a write transaction of ``db``.

    A *child* is what stands for a value: ``[value]`` where it is small, else its part's number.
    """

    def __init__(self, db: sqlite3.Connection, serde: PartsSerde, thread: str) -> None:
        self._db = db
        self._serde = serde
        self._thread = thread
        self._raw: dict[int, tuple[int, str, bytes]] = {}

    def pack(self, checkpoint: Mapping[str, Any]) -> Packed:
        """Write the parts of ``checkpoint`` and return what is left of it."""
        versions, values = checkpoint["channel_versions"], checkpoint["channel_values"]
        updated = checkpoint.get("updated_channels")
        names = sorted({*versions, *values, *(updated or ())})
        number = {name: i for i, name in enumerate(names)}
        seen = [(n, c, v) for n, by in checkpoint["versions_seen"].items() for c, v in by.items()]
        nodes = list(checkpoint["versions_seen"])
        body = [
            checkpoint["v"],
            checkpoint["ts"],
            self.keep(names),
            [versions.get(name) for name in names],
            self.keep([nodes, [[nodes.index(n), c] for n, c, _ in seen]]),
            [version for *_, version in seen],
            None if updated is None else [number[name] for name in updated],
            [[number[name], self.keep(value)] for name, value in values.items()],
            {key: value for key, value in checkpoint.items() if key not in _WHOLE},
        ]
        return Packed(id=checkpoint["id"], body=body)

    def unpack(self, packed: Packed, id_: str) -> dict[str, Any]:
        """Return the checkpoint that was packed. Raises ``UserError`` where a part is gone."""
        v, ts, names_child, versions, seen_child, seen_versions, updated, values, more = packed[
            "body"
        ]
        names = self.get(names_child)
        nodes, pairs = self.get(seen_child)
        seen: dict[str, dict[str, Any]] = {node: {} for node in nodes}
        for (node, channel), version in zip(pairs, seen_versions, strict=True):
            seen[nodes[node]][channel] = version
        known = zip(names, versions, strict=True)
        return {
            "v": v,
            "ts": ts,
            "id": id_,
            "channel_values": {names[i]: self.get(child) for i, child in values},
            "channel_versions": {name: version for name, version in known if version is not None},
            "versions_seen": seen,
            "updated_channels": None if updated is None else [names[i] for i in updated],
            **more,
        }

    def keep(self, value: Any) -> Any:
        """Return the child that stands for ``value``, written if it is not there yet."""
        kind, body = self._serde.dumps_typed(value)
        if len(body) <= INLINE:
            return [value]
        form = _LEAF
        if len(body) >= _DIVIDED and type(value) is list:
            form, children = _LIST, [self.keep(item) for item in value]
            kind, body = self._serde.dumps_typed(children)
        elif len(body) >= _DIVIDED and type(value) is dict:
            form, by_key = _MAP, {key: self.keep(item) for key, item in value.items()}
            kind, body = self._serde.dumps_typed(by_key)
        digest = hashlib.sha256(b"%d %s " % (form, kind.encode()) + body).digest()[:16]
        known = self._db.execute(
            "select id from parts where thread_id = ? and hash = ?", (self._thread, digest)
        ).fetchone()
        if known is not None:
            return int(known[0])
        new = self._db.execute(
            "insert into parts (thread_id, hash, form, type, body) values (?, ?, ?, ?, ?)",
            (self._thread, digest, form, kind, body),
        )
        return int(new.lastrowid or 0)

    def get(self, child: Any) -> Any:
        """Return the value that ``child`` stands for, made anew. Raises ``UserError`` if it is gone."""
        if not isinstance(child, int):
            return child[0]
        form, kind, body = self._read(child)
        value = self._serde.loads_typed((kind, body))
        if form == _LIST:
            return [self.get(item) for item in value]
        if form == _MAP:
            return {key: self.get(item) for key, item in value.items()}
        return value

    def reached(self, children: Iterable[Any], known: set[int]) -> None:
        """Add the numbers of all parts that ``children`` need to ``known``."""
        for child in children:
            if not isinstance(child, int) or child in known:
                continue
            known.add(child)
            form, kind, body = self._read(child)
            if form != _LEAF:
                value = self._serde.loads_typed((kind, body))
                self.reached(value.values() if form == _MAP else value, known)

    def _read(self, number: int) -> tuple[int, str, bytes]:
        if number not in self._raw:
            row = self._db.execute(
                "select form, type, body from parts where id = ? and thread_id = ?",
                (number, self._thread),
            ).fetchone()
            if row is None:
                raise UserError(
                    f"a checkpoint of thread '{self._thread}' is not whole: start another thread"
                )
            self._raw[number] = row
        return self._raw[number]


def children_of(packed: Packed | PackedWrites) -> list[Any]:
    """Return the children that a checkpoint, or a task's results, are made of."""
    if isinstance(packed, PackedWrites):
        return [child for _, child in packed]
    body = packed["body"]
    return [body[2], body[4], *(child for _, child in body[7])]


def sweep(db: sqlite3.Connection, serde: PartsSerde, thread: str) -> int:
    """Delete the parts of ``thread`` that no checkpoint of it needs; returns how many.

    To be called in the transaction that removed checkpoints.
    """
    parts, needed = Parts(db, serde, thread), set[int]()
    for table, column, kind in (
        ("checkpoints", "checkpoint", CHECKPOINT),
        ("writes", "value", WRITES),
    ):
        rows: Sequence[tuple[bytes]] = db.execute(
            f"select {column} from {table} where thread_id = ? and type = ?",  # noqa: S608 - ours
            (thread, kind),
        ).fetchall()
        for (body,) in rows:
            parts.reached(children_of(serde.loads_typed((kind, body))), needed)
    return _delete(db, thread, needed)


def _delete(db: sqlite3.Connection, thread: str, needed: Collection[int]) -> int:
    numbers = [row[0] for row in db.execute("select id from parts where thread_id = ?", (thread,))]
    gone = [(number,) for number in numbers if number not in needed]
    db.executemany("delete from parts where id = ?", gone)
    return len(gone)
