"""Long-term memory as a LangGraph store: pass it as ``store=`` to any graph.

Items of any namespace are kept in the memory's own database, beside the facts that conversations
wrote. Their order, filters and ranking are those of LangGraph's ``InMemoryStore``, which applies them;
``created_at`` is the time of an item's first put. A put survives a killed process at once, a power cut
after a moment.
"""

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)
from langgraph.store.memory import InMemoryStore

from stategate.stores.files import parse_json
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import TextEmbedder
from stategate.stores.memory.schema import MEMORY, items
from stategate.stores.sql import Database

_JOIN = "."  # LangGraph refuses labels with a period
_DELETE = items.delete().where(
    *(items.c[name] == sa.bindparam(f"at_{name}") for name in ("namespace", "key"))
)


class LongTermStore(BaseStore):
    """A LangGraph store over one :class:`LongTerm`; with an embedder ``query`` ranks by meaning."""

    supports_ttl = False

    def __init__(self, memory: LongTerm, embedder: TextEmbedder | None = None) -> None:
        self._embedder = embedder
        # Its own connections: items need not wait for the disk as a user's facts do.
        place = memory.url.removeprefix("sqlite:///")
        self._db = Database(place, replace(MEMORY, durable=False))
        new = self._db.insert(items)
        self._put = new.on_conflict_do_update(
            index_elements=["namespace", "key"],
            set_={name: new.excluded[name] for name in ("value", "searched", "updated")},
        )

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out ``ops``: what is read is as before the batch, of writes of one key the last holds.

        Raises ``TypeError`` for a value that is not JSON (a date, bytes), ``InvalidNamespaceError`` for
        a label with a period.
        """
        every = list(ops)
        for op in every:
            validate_op_namespace(op)
        puts = {(op.namespace, op.key): op for op in every if isinstance(op, PutOp)}
        rows = [_row(op) for op in puts.values()]
        results = [None if isinstance(op, PutOp) else self._read_op(op) for op in every]
        self._write(rows)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read_op(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            here = (items.c.namespace == _JOIN.join(op.namespace), items.c.key == op.key)
            for item, _ in self._read(*here):
                return Item(**{name: getattr(item, name) for name in Item.__slots__})
            return None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            store = InMemoryStore()
            store.batch(PutOp(item.namespace, "", {}) for item, _ in self._read())
            return store.batch([op])[0]
        raise ValueError(f"Unknown operation type: {type(op)}")

    def _write(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write items in one transaction, and delete those without a value."""
        now = time.time()
        new, gone = [], []
        for number, row in enumerate(rows):
            if row["value"] is None:
                gone.append({"at_namespace": row["namespace"], "at_key": row["key"]})
            else:
                at = now + number * 1e-6  # items come in the order in which they were put
                new.append({**row, "created": at, "updated": at})
        if rows:
            with self._db.write("items/items") as db:
                for statement, values in ((self._put, new), (_DELETE, gone)):
                    if values:
                        db.execute(statement, values)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        """Return what fits: LangGraph's own store filters, ranks and cuts, as people know it."""
        label = _JOIN.join(op.namespace_prefix)
        below = items.c.namespace.startswith(label + _JOIN, autoescape=True)
        found = self._read(*([sa.or_(items.c.namespace == label, below)] if label else []))
        index: IndexConfig | None = None
        if op.query and (embedder := self._embedder) is not None:
            index = {"dims": 0, "embed": lambda texts: embedder.embed(list(texts)).tolist()}
        store = InMemoryStore(index=index)
        store.batch(PutOp(item.namespace, item.key, item.value, paths) for item, paths in found)
        known = {(item.namespace, item.key): item for item, _ in found}
        fit = store.search(
            op.namespace_prefix,
            query=op.query,
            filter=op.filter,
            limit=op.limit,
            offset=op.offset,
        )
        for hit in fit:
            known[hit.namespace, hit.key].score = hit.score
        return [known[hit.namespace, hit.key] for hit in fit]

    def _read(self, *conditions: sa.ColumnElement[bool]) -> list[tuple[SearchItem, Any]]:
        """Return items in the order in which they came, each with its put's ``index``."""
        query = sa.select(items).where(*conditions).order_by(items.c.created, items.c.key)
        with self._db.damage():
            return [(_item(row), parse_json(row.searched)) for row in self._db.rows(query)]


def _row(op: PutOp) -> dict[str, Any]:
    """Return the columns of an item, without a value of one to delete. Raises ``TypeError``."""
    value = None if op.value is None else json.dumps(dict(op.value))
    place = {"namespace": _JOIN.join(op.namespace), "key": op.key}
    return {**place, "value": value, "searched": json.dumps(op.index)}


def _item(row: Any) -> SearchItem:
    created, updated = (datetime.fromtimestamp(at, UTC) for at in (row.created, row.updated))
    path = tuple(row.namespace.split(_JOIN)) if row.namespace else ()
    return SearchItem(path, row.key, parse_json(row.value), created, updated)
