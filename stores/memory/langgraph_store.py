"""Long-term memory as a LangGraph store: pass it as ``store=`` to any graph.

Items of any namespace are kept in the memory's own database, beside the facts that conversations
wrote. LangGraph's ``InMemoryStore`` orders, filters and ranks them. Differences from it:

- ``created_at`` is the time of an item's first put, and a namespace ends with its last item;
- a tuple is returned as a list; an item that is put again without an index has none.

A put survives a killed process at once, a power cut after a moment.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    Op,
    PutOp,
    Result,
    SearchOp,
    validate_op_namespace,
)
from langgraph.store.memory import InMemoryStore

from stategate.stores.embeddings import Embedder
from stategate.stores.files import parse_json
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.schema import MEMORY, items
from stategate.stores.sql import Database
from stategate.stores.text import storable

_JOIN = "."  # LangGraph refuses labels with a period


class LongTermStore(BaseStore):
    """A LangGraph store over one :class:`LongTerm`; with an embedder ``query`` ranks by meaning."""

    def __init__(self, memory: LongTerm, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        # Separate connections: items need not wait for the disk as a user's facts do.
        path = memory.url.removeprefix("sqlite:///")
        self._db = Database(path, replace(MEMORY, durable=False))
        new = self._db.insert(items)
        self._put = new.on_conflict_do_update(
            index_elements=["namespace", "key"],
            set_={name: new.excluded[name] for name in ("value", "searched", "updated")},
        )

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out ``ops``: reads see the state before the batch; of puts to one key the last counts.

        Raises ``TypeError`` for a value that is not JSON (a date, bytes, a number as a key) and for
        a key that no database takes, ``InvalidNamespaceError`` for a label with a period.
        """
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        rows = [_row(op) for op in puts.values()]
        results = [None if isinstance(op, PutOp) else self._read_op(op) for op in ops]
        self._write(rows)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read_op(self, op: Op) -> Result:
        """Return the result of ``op`` from an ``InMemoryStore`` of the items that it may concern."""
        index: IndexConfig | None = None
        where: list[sa.ColumnElement[bool]] = []
        if isinstance(op, GetOp):
            where = [items.c.namespace == _JOIN.join(op.namespace), items.c.key == op.key]
        elif isinstance(op, SearchOp):
            if label := _JOIN.join(op.namespace_prefix):
                below = items.c.namespace.startswith(label + _JOIN, autoescape=True)
                where = [sa.or_(items.c.namespace == label, below)]
            if op.query and (embedder := self._embedder) is not None:
                index = {"dims": 0, "embed": lambda texts: embedder.embed(list(texts)).tolist()}
        # In the order of their first puts, which InMemoryStore lists and breaks ties by.
        rows = self._db.rows(sa.select(items).where(*where).order_by(items.c.created, items.c.key))
        puts, times = [], {}
        for row in rows:
            path = tuple(row.namespace.split(_JOIN)) if row.namespace else ()
            times[path, row.key] = row.created, row.updated
            value, searched = parse_json(row.value), parse_json(row.searched)
            puts.append(PutOp(path, row.key, value, searched))
        store = InMemoryStore(index=index)
        store.batch(puts)
        result = store.batch([op])[0]
        for item in [result] if isinstance(result, Item) else result or ():
            if isinstance(item, Item):
                created, updated = times[item.namespace, item.key]
                item.created_at = datetime.fromtimestamp(created, UTC)
                item.updated_at = datetime.fromtimestamp(updated, UTC)
        return result

    def _write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write items in one transaction, and delete those without a value."""
        if not rows:
            return
        now = time.time()
        new = [
            # A microsecond apart, so that they sort in the order of their puts.
            {**row, "created": now + number * 1e-6, "updated": now + number * 1e-6}
            for number, row in enumerate(rows)
            if row["value"] is not None
        ]
        with self._db.write("items") as db:
            if new:
                db.execute(self._put, new)
            for row in rows:
                if row["value"] is None:
                    match = (items.c.namespace == row["namespace"], items.c.key == row["key"])
                    db.execute(items.delete().where(*match))


def _row(op: PutOp) -> dict[str, Any]:
    """Return the columns of an item; ``value`` is None to delete it. Raises ``TypeError``."""
    _require_text_keys(op.value)
    value = None if op.value is None else json.dumps(dict(op.value))
    identity = {"namespace": _JOIN.join(op.namespace), "key": op.key}
    if any(storable(str(text)) != str(text) for text in identity.values()):
        raise TypeError("a key or a label with NUL or a lone surrogate cannot be kept: encode it")
    return {**identity, "value": value, "searched": json.dumps(op.index)}


def _require_text_keys(value: object) -> None:
    """Raise ``TypeError`` for a key that JSON would silently turn into text."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the keys of a value must be texts")
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        _require_text_keys(item)
