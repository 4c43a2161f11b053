"""Long-term memory as a LangGraph store: pass it as ``store=`` to any graph.

Items of any namespace are kept in the memory's own database. Below ``("facts", user, agent)`` stand
the facts that conversations wrote: they can be got, searched by relevance and deleted (forgotten),
but only a conversation writes them, since each must be traceable to a turn. Order, filters and
ranking of items are those of LangGraph's ``InMemoryStore``, which applies them; ``created_at`` is the
time of an item's first put. A put survives a killed process at once, a power cut after a moment.
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
        for op in puts.values():
            if op.namespace[:1] == (FACTS,):
                self._forget(op)
        self._write(rows)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read_op(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            for item in self._get(op.namespace, op.key):
                return Item(**{name: getattr(item, name) for name in Item.__slots__})
            return None
        if isinstance(op, SearchOp):
            is_facts = op.namespace_prefix[:1] == (FACTS,)
            return self._search_facts(op) if is_facts else self._search(op)
        if isinstance(op, ListNamespacesOp):
            paths = [item.namespace for item, _ in self._read()]
            paths += [(FACTS, place.user, place.agent) for place in self._memory.namespaces()]
            store = InMemoryStore()
            store.batch(PutOp(path, "", {}) for path in paths)
            return store.batch([op])[0]
        raise ValueError(f"Unknown operation type: {type(op)}")

    def _get(self, namespace: Path, key: str) -> list[SearchItem]:
        if (place := _fact_place(namespace)) is not None:
            facts = self._memory.facts(place)
            return [_fact_item(place, fact) for fact in facts if str(fact.id) == key]
        here = (items.c.namespace == _JOIN.join(namespace), items.c.key == key)
        return [item for item, _ in self._read(*here)]

    def _forget(self, op: PutOp) -> None:
        """Forget the fact that ``op`` deletes. Raises ``UserError`` for any other write of facts."""
        place = _fact_place(op.namespace)
        if op.value is not None or place is None or not op.key.isdigit():
            raise UserError("facts are written by conversations: only delete takes them away")
        self._memory.erase(place, [int(op.key)])

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

    def _search_facts(self, op: SearchOp) -> list[SearchItem]:
        """Return facts by relevance; without a query the newest of each memory come first."""
        prefix = op.namespace_prefix
        ranked: list[list[SearchItem]] = []
        for place in self._memory.namespaces():
            if (FACTS, place.user, place.agent)[: len(prefix)] == prefix:
                ranked.append([_fact_item(place, fact) for fact in self._facts_of(place, op)])
        found = [item for one in ranked for item in one]
        if len(ranked) > 1:  # one memory's come by all signals, those of several by nearness alone
            found.sort(key=lambda item: -(item.score or 0.0))
        store = InMemoryStore()
        store.batch(PutOp(item.namespace, item.key, item.value) for item in found)
        hits = store.search(prefix, filter=op.filter, limit=len(found))
        fit = {(hit.namespace, hit.key) for hit in hits}
        found = [item for item in found if (item.namespace, item.key) in fit]
        return found[op.offset : op.offset + op.limit]

    def _facts_of(self, place: Namespace, op: SearchOp) -> list[Fact]:
        if not op.query or self._embedder is None:
            return sorted(self._memory.facts(place), key=lambda fact: (-fact.updated, -fact.id))
        asked = asked_of(op.query, self._embedder)
        return self._memory.recall(place, asked, Limits(facts=op.limit + op.offset))[0]

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


def _fact_place(namespace: Path) -> Namespace | None:
    is_place = len(namespace) == 3 and namespace[0] == FACTS
    return Namespace(namespace[1], namespace[2]) if is_place else None


def _fact_item(place: Namespace, fact: Fact) -> SearchItem:
    kept = ("question", "answer", "success", "times")
    value: dict[str, object] = {name: getattr(fact, name) for name in kept}
    value["turns"] = [dict(turn) for turn in fact.turns]
    created, updated = (datetime.fromtimestamp(t, UTC) for t in (fact.created, fact.updated))
    path = (FACTS, place.user, place.agent)
    return SearchItem(path, str(fact.id), value, created, updated, fact.score)
