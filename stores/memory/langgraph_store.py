"""Long-term memory as a LangGraph store: pass it as ``store=`` to any graph.

Items of any namespace are kept in the memory's own database. Below ``("facts", user, agent)`` stand
the facts that conversations wrote: they can be got, searched by relevance and deleted (forgotten),
but only a conversation writes them, since each must be traceable to a turn.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
import sqlalchemy as sa
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from langgraph.store.base.embed import get_text_at_path
from numpy.typing import NDArray

from stategate.stores.errors import UserError
from stategate.stores.files import parse_json
from stategate.stores.memory.long_term import LongTerm
from stategate.stores.memory.records import Fact, Namespace
from stategate.stores.memory.schema import items

FACTS = "facts"
_JOIN = "."  # LangGraph refuses labels with a period
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda a, b: bool(a == b),
    "$ne": lambda a, b: bool(a != b),
    "$gt": lambda a, b: float(a) > float(b),
    "$gte": lambda a, b: float(a) >= float(b),
    "$lt": lambda a, b: float(a) < float(b),
    "$lte": lambda a, b: float(a) <= float(b),
}
Path = tuple[str, ...]


class Embeds(Protocol):
    """What the store needs of an embedder: a name, and unit rows for texts."""

    name: str

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Return unit rows of shape ``(len(texts), dimension)``."""
        ...


class LongTermStore(BaseStore):
    """A LangGraph store over one :class:`LongTerm`; with an embedder ``query`` ranks by meaning."""

    supports_ttl = False

    def __init__(self, memory: LongTerm, embedder: Embeds | None = None) -> None:
        self._memory = memory
        self._embedder = embedder

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out ``ops`` in order. Raises ``UserError`` for a write below ``("facts", ...)``."""
        return [self._done(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _done(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op.namespace, op.key)
        if isinstance(op, PutOp):
            self._put(op)
            return None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise UserError(f"this store has no operation {type(op).__name__}")

    def _get(self, namespace: Path, key: str) -> Item | None:
        place = _fact_place(namespace)
        if place is not None:
            facts = (f for f in self._memory.facts(place) if str(f.id) == key)
            return next((_fact_item(namespace, fact) for fact in facts), None)
        query = sa.select(items).where(items.c.namespace == _label(namespace), items.c.key == key)
        with self._memory.transaction(None, writes=False) as db:
            row = db.execute(query).first()
        return None if row is None else _item(row, None)

    def _put(self, op: PutOp) -> None:
        if op.namespace[:1] == (FACTS,):
            place = _fact_place(op.namespace)
            if op.value is not None or place is None or not op.key.isdigit():
                raise UserError("facts are written by conversations: only delete takes them away")
            self._memory.forget(place, [int(op.key)])
            return
        label, now = _label(op.namespace), time.time()
        here = (items.c.namespace == label, items.c.key == op.key)
        lock = Namespace(label[:180], "items")
        with self._memory.transaction(lock) as db:
            if op.value is None:
                db.execute(items.delete().where(*here))
                return
            value = {"value": json.dumps(op.value), "searched": _searched(op), "updated": now}
            if not db.execute(items.update().where(*here).values(**value)).rowcount:
                row = {"namespace": label, "key": op.key, "created": now, **value}
                db.execute(items.insert().values(**row))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.namespace_prefix[:1] == (FACTS,):
            ranked = self._facts(op)
        else:
            prefix = _label(op.namespace_prefix)
            query = sa.select(items).order_by(items.c.updated.desc(), items.c.key)
            if prefix:
                below = items.c.namespace.startswith(prefix + _JOIN, autoescape=True)
                query = query.where(sa.or_(items.c.namespace == prefix, below))
            with self._memory.transaction(None, writes=False) as db:
                rows = list(db.execute(query))
            ranked = self._ranked(op.query, rows)
        kept = [item for item in ranked if _matches(item.value, op.filter or {})]
        return kept[op.offset : op.offset + op.limit]

    def _ranked(self, query: str | None, rows: list[Any]) -> list[SearchItem]:
        if query is None or self._embedder is None or not rows:
            return [_item(row, None) for row in rows]
        texts = [parse_json(row.searched) for row in rows]
        flat = [text for parts in texts for text in parts]
        scores = self._embedder.embed(flat) @ self._embedder.embed([query])[0] if flat else []
        remaining = iter(scores)
        best = [max((float(next(remaining)) for _ in parts), default=None) for parts in texts]
        scored = [(s, r) for s, r in zip(best, rows, strict=True) if s is not None]
        scored.sort(key=lambda item: -item[0])
        return [_item(row, score) for score, row in scored]

    def _facts(self, op: SearchOp) -> list[SearchItem]:
        ranked: list[SearchItem] = []
        places = 0
        for place in self._memory.namespaces():
            path = (FACTS, place.user, place.agent)
            if path[: len(op.namespace_prefix)] != op.namespace_prefix:
                continue
            vector, name = None, ""
            if op.query is not None and self._embedder is not None:
                vector, name = self._embedder.embed([op.query])[0], self._embedder.name
            facts = self._memory.search(place, vector, name, op.limit + op.offset, 0.0)
            ranked += [_fact_item(path, fact) for fact in facts]
            places += 1
        # One memory's facts come in the order of all signals; those of several by nearness alone.
        return ranked if places == 1 else sorted(ranked, key=lambda item: -(item.score or 0.0))

    def _namespaces(self, op: ListNamespacesOp) -> list[Path]:
        with self._memory.transaction(None, writes=False) as db:
            labels = list(db.scalars(sa.select(items.c.namespace).distinct()))
        paths = [tuple(label.split(_JOIN)) for label in labels]
        paths += [(FACTS, place.user, place.agent) for place in self._memory.namespaces()]
        wanted = [p for p in paths if all(_fits(c, p) for c in op.match_conditions or ())]
        cut = sorted({path[: op.max_depth] for path in wanted})
        return cut[op.offset : op.offset + op.limit]


def _label(namespace: Path) -> str:
    return _JOIN.join(namespace)


def _fact_place(namespace: Path) -> Namespace | None:
    is_place = len(namespace) == 3 and namespace[0] == FACTS
    return Namespace(namespace[1], namespace[2]) if is_place else None


def _searched(op: PutOp) -> str:
    """Return the texts by which an item is found, as JSON: of ``index``'s fields, else the value."""
    if op.index is False:
        return "[]"
    paths = op.index if isinstance(op.index, list) else ["$"]
    texts: list[str] = []
    for path in paths:
        texts += get_text_at_path(op.value, path)
    return json.dumps(texts)


def _item(row: Any, score: float | None) -> SearchItem:
    created, updated = (datetime.fromtimestamp(t, UTC) for t in (row.created, row.updated))
    path = tuple(row.namespace.split(_JOIN))
    return SearchItem(path, row.key, parse_json(row.value), created, updated, score)


def _fact_item(path: Path, fact: Fact) -> SearchItem:
    value = {
        "question": fact.question,
        "answer": fact.answer,
        "salience": fact.salience,
        "success": fact.success,
        "times": fact.times,
        "contradicts": list(fact.contradicts),
        "turns": [dict(turn) for turn in fact.turns],
    }
    created, updated = (datetime.fromtimestamp(t, UTC) for t in (fact.created, fact.updated))
    return SearchItem(path, str(fact.id), value, created, updated, fact.score)


def _matches(value: Any, wanted: Any) -> bool:
    """Compare like LangGraph's own stores: nested mappings, and operators such as ``$gte``."""
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    if any(str(key).startswith("$") for key in wanted):
        return all(_compared(value, name, other) for name, other in wanted.items())
    return isinstance(value, dict) and all(
        key in value and _matches(value[key], other) for key, other in wanted.items()
    )


def _compared(value: Any, name: str, other: Any) -> bool:
    if name not in _COMPARE:
        raise UserError(f"no filter operator '{name}': known are {', '.join(_COMPARE)}")
    try:
        return _COMPARE[name](value, other)
    except (TypeError, ValueError):
        return False  # what cannot be compared does not match


def _fits(condition: MatchCondition, path: Path) -> bool:
    wanted = tuple(condition.path)
    part = path[: len(wanted)] if condition.match_type == "prefix" else path[-len(wanted) :]
    return len(path) >= len(wanted) and all(
        b in ("*", a) for a, b in zip(part, wanted, strict=True)
    )
