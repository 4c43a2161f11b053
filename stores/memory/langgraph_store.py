"""Long-term memory as a LangGraph store: pass it as ``store=`` to any graph.

Items of any namespace are kept in the memory's own database. Below ``("facts", user, agent)`` stand
the facts that conversations wrote: they can be got, searched by relevance and deleted (forgotten),
but only a conversation writes them, since each must be traceable to a turn. Filters and namespaces
mean what they mean to LangGraph's ``InMemoryStore``, which applies them; ``created_at`` is the time
of an item's first put. A put survives a killed process at once, a power cut after a moment.
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

from stategate.stores.errors import UserError
from stategate.stores.files import parse_json
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.recall import Limits, asked_of
from stategate.stores.memory.records import Fact, Namespace, TextEmbedder
from stategate.stores.memory.schema import MEMORY, items
from stategate.stores.sql import Database

FACTS = "facts"
_JOIN = "."  # LangGraph refuses labels with a period
_DELETE = items.delete().where(
    *(items.c[name] == sa.bindparam(f"at_{name}") for name in ("namespace", "key"))
)
Path = tuple[str, ...]


class LongTermStore(BaseStore):
    """A LangGraph store over one :class:`LongTerm`; with an embedder ``query`` ranks by meaning."""

    supports_ttl = False

    def __init__(self, memory: LongTerm, embedder: TextEmbedder | None = None) -> None:
        self._memory = memory
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

        Raises ``UserError`` for a write below ``("facts", ...)``, ``TypeError`` for a value that is not
        JSON (a date, bytes), ``InvalidNamespaceError`` for a label with a period.
        """
        every = list(ops)
        for op in every:
            validate_op_namespace(op)
        puts = {(op.namespace, op.key): op for op in every if isinstance(op, PutOp)}
        rows = [_row(op) for op in puts.values()]
        results = [None if isinstance(op, PutOp) else self._read_op(op) for op in every]
        self._write(list(zip(puts.values(), rows, strict=True)))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read_op(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op.namespace, op.key)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            paths = [item.namespace for item, _ in self._items(())]
            paths += [(FACTS, place.user, place.agent) for place in self._memory.namespaces()]
            store = InMemoryStore()
            store.batch(PutOp(path, "", {}) for path in paths)
            return store.batch([op])[0]
        raise ValueError(f"Unknown operation type: {type(op)}")

    def _get(self, namespace: Path, key: str) -> Item | None:
        place = _fact_place(namespace)
        if place is None:
            here = (items.c.namespace == _JOIN.join(namespace), items.c.key == key)
            found = [item for item, _ in self._read(*here)]
        else:
            facts = self._memory.facts(place)
            found = [_fact_item(namespace, fact) for fact in facts if str(fact.id) == key]
        for item in found:
            return Item(**{name: getattr(item, name) for name in Item.__slots__})
        return None

    def _write(self, puts: Sequence[tuple[PutOp, dict[str, str] | None]]) -> None:
        """Write items in one transaction; facts can be deleted only."""
        for op, _ in puts:
            if op.namespace[:1] == (FACTS,):
                place = _fact_place(op.namespace)
                if op.value is not None or place is None or not op.key.isdigit():
                    raise UserError(
                        "facts are written by conversations: only delete takes them away"
                    )
                self._memory.erase(place, [int(op.key)])
        now = time.time()
        new, gone = [], []
        for number, (op, row) in enumerate(puts):
            here = {"namespace": _JOIN.join(op.namespace), "key": op.key}
            at = now + number * 1e-6  # items come in the order in which they were put
            if row is not None:
                new.append({**here, **row, "created": at, "updated": at})
            elif op.namespace[:1] != (FACTS,):
                gone.append({f"at_{name}": value for name, value in here.items()})
        if new or gone:
            with self._db.write("items/items") as db:
                for statement, rows in ((self._put, new), (_DELETE, gone)):
                    if rows:
                        db.execute(statement, rows)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        """Return what fits: LangGraph's own store filters, ranks and cuts, as people know it."""
        if op.namespace_prefix[:1] == (FACTS,):
            return self._search_facts(op)
        found = self._items(op.namespace_prefix)
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

    def _items(self, prefix: Path) -> list[tuple[SearchItem, Any]]:
        label = _JOIN.join(prefix)
        below = items.c.namespace.startswith(label + _JOIN, autoescape=True)
        return self._read(*([sa.or_(items.c.namespace == label, below)] if prefix else []))

    def _read(self, *conditions: sa.ColumnElement[bool]) -> list[tuple[SearchItem, Any]]:
        """Return items in the order in which they came, each with its put's ``index``."""
        query = sa.select(items).where(*conditions).order_by(items.c.created, items.c.key)
        with self._db.damage():
            return [(_item(row), parse_json(row.searched)) for row in self._db.rows(query)]

    def _search_facts(self, op: SearchOp) -> list[SearchItem]:
        ranked: list[SearchItem] = []
        places = 0
        for place in self._memory.namespaces():
            path = (FACTS, place.user, place.agent)
            if path[: len(op.namespace_prefix)] == op.namespace_prefix:
                places += 1
                ranked += [_fact_item(path, fact) for fact in self._facts_of(place, op)]
        if places > 1:  # one memory's facts come by all signals; those of several by nearness alone
            ranked.sort(key=lambda item: -(item.score or 0.0))
        store = InMemoryStore()
        store.batch(PutOp(item.namespace, item.key, item.value) for item in ranked)
        hits = store.search(op.namespace_prefix, filter=op.filter, limit=len(ranked))
        fit = {(hit.namespace, hit.key) for hit in hits}
        ranked = [item for item in ranked if (item.namespace, item.key) in fit]
        return ranked[op.offset : op.offset + op.limit]

    def _facts_of(self, place: Namespace, op: SearchOp) -> list[Fact]:
        """Return the facts that answer the query, best first; without one the newest first."""
        if not op.query or self._embedder is None:
            return sorted(self._memory.facts(place), key=lambda fact: (-fact.updated, -fact.id))
        asked = asked_of(op.query, self._embedder)
        return self._memory.recall(place, asked, Limits(facts=op.limit + op.offset))[0]


def _fact_place(namespace: Path) -> Namespace | None:
    is_place = len(namespace) == 3 and namespace[0] == FACTS
    return Namespace(namespace[1], namespace[2]) if is_place else None


def _row(op: PutOp) -> dict[str, str] | None:
    """Return the columns of an item, None for one to delete. Raises ``TypeError``."""
    if op.value is None:
        return None
    return {"value": json.dumps(dict(op.value)), "searched": json.dumps(op.index)}


def _item(row: Any) -> SearchItem:
    created, updated = (datetime.fromtimestamp(at, UTC) for at in (row.created, row.updated))
    path = tuple(row.namespace.split(_JOIN)) if row.namespace else ()
    return SearchItem(path, row.key, parse_json(row.value), created, updated)


def _fact_item(path: Path, fact: Fact) -> SearchItem:
    kept = ("question", "answer", "success", "times")
    value: dict[str, object] = {name: getattr(fact, name) for name in kept}
    value["turns"] = [dict(turn) for turn in fact.turns]
    created, updated = (datetime.fromtimestamp(t, UTC) for t in (fact.created, fact.updated))
    return SearchItem(path, str(fact.id), value, created, updated, fact.score)
