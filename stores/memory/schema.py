"""The tables of long-term memory."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from stategate.stores.sql import Schema, Text, Whole, create_tables

metadata = sa.MetaData()


def _table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    """Return a table of a user's rows, with a number, never used again, as its key."""
    # Earlier versions told agents apart.
    own = (_column("user", Text), sa.Column("agent", Text, nullable=False, default="stategate"))
    key = sa.Column("id", Whole, primary_key=True)
    return sa.Table(name, metadata, key, *own, *parts, sqlite_autoincrement=True)


def _column(name: str, kind: Any) -> sa.Column[Any]:
    """Return a required column."""
    return sa.Column(name, kind, nullable=False)


#: Every turn that was told, once: (episode, step) is what makes a retried write harmless.
facts = _table(
    "facts",
    _column("thread_id", Text),
    _column("episode_id", Text),
    _column("step", Whole),
    _column("text", Text),
    _column("about", Text),
    _column("at", sa.Float),
    _column("speaker", Text),
    _column("source", Text),
    _column("trust", sa.Float),
    _column("embedder", Text),
    _column("vector", sa.LargeBinary),
    _column("dimension", Whole),
    sa.UniqueConstraint("user", "agent", "episode_id", "step"),
)

#: What turns state of whom, and for which time; a later turn closes a state, it does not delete it.
statements = _table(
    "statements",
    _column("fact_id", sa.ForeignKey("facts.id", ondelete="CASCADE")),
    _column("subject", Text),
    _column("relation", Text),
    _column("value", Text),
    _column("value_key", Text),
    _column("negated", sa.Boolean),
    _column("is_state", sa.Boolean),
    _column("at", sa.Float),
    sa.Column("valid_from", sa.Float),
    sa.Column("valid_to", sa.Float),
    sa.Column("closed_by", Whole),
    sa.Index("statements_by_subject", "user", "agent", "subject", "relation"),
    sa.Index("statements_by_value", "user", "agent", "subject", "value_key"),
    sa.Index("statements_by_fact", "fact_id"),
)

#: Items of other LangGraph graphs that use this memory as their ``store`` (see langgraph_store);
#: ``searched`` is the ``index`` of their put, as JSON.
items = sa.Table(
    "items",
    metadata,
    sa.Column("namespace", Text, primary_key=True),
    sa.Column("key", Text, primary_key=True),
    _column("value", Text),
    _column("searched", Text),
    _column("created", sa.Float),
    _column("updated", sa.Float),
)

#: Versions before 11 kept answers, and facts apart from turns.
MEMORY = Schema(
    "long-term memory",
    (create_tables(facts, statements, items),),
    first=11,
    fix="name another",
    durable=True,
    own_schema=False,
)


def among(column: sa.ColumnElement[int], ids: Iterable[int]) -> sa.ColumnElement[bool]:
    """Return the condition that a number is one of ``ids``, however many: they are no parameters."""
    given = sa.bindparam(
        "ids", sorted(ids), sa.Integer, expanding=True, literal_execute=True, unique=True
    )
    return column.in_(given)
