"""The tables of long-term memory, and what each version of them adds."""

import time
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from stategate.stores.memory.records import Namespace
from stategate.stores.sql import (
    Blob,
    Migration,
    Real,
    Schema,
    Text,
    Whole,
    add_columns,
    create_tables,
)

metadata = sa.MetaData()


def _table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    """Return a table of a user's and an agent's rows, with a number as its key."""
    own = (_column("user", Text), _column("agent", Text))
    return sa.Table(name, metadata, sa.Column("id", Whole, primary_key=True), *own, *parts)


def _column(name: str, kind: Any, added: str | None = None) -> sa.Column[Any]:
    """Return a required column; rows of memories older than the column have ``added`` there."""
    return sa.Column(name, kind, nullable=False, server_default=added)


#: Every turn that was written, once: (episode, step) is what makes a retried write harmless.
turns = _table(
    "turns",
    _column("thread_id", Text),
    _column("episode_id", Text),
    _column("step", Whole),
    _column("question", Text),
    _column("answer", Text),
    _column("about", Text),
    _column("at", Real),
    _column("speaker", Text, ""),
    _column("source", Text, "user"),
    _column("trust", Real, "1.0"),
    sa.UniqueConstraint("user", "agent", "episode_id", "step"),
)

facts = _table(
    "facts",
    _column("question", Text),
    _column("answer", Text),
    _column("salience", Real),
    _column("success", sa.Boolean),
    _column("created", Real),
    _column("updated", Real),
    _column("times", Whole),
    _column("embedder", Text),
    _column("vector", Blob),
    _column("speaker", Text, ""),
    _column("source", Text, "user"),
    _column("trust", Real, "1.0"),
    _column("dimension", Whole, "0"),
    sa.Index("facts_by_namespace", "user", "agent"),
)

#: Provenance: which turns a fact came from (several where near-duplicates were merged).
fact_turns = sa.Table(
    "fact_turns",
    metadata,
    sa.Column("fact_id", sa.ForeignKey("facts.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("turn_id", sa.ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
)

#: The facts that a turn was made from: it is trusted no more than these, and goes when they are
#: forgotten; a fact that somebody told in other turns, too, stays with those.
turn_lineage = sa.Table(
    "turn_lineage",
    metadata,
    sa.Column("turn_id", sa.ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("source_id", Whole, primary_key=True),
)

#: What turns state of whom, and for which time; a later turn closes a state, it does not delete it.
statements = _table(
    "statements",
    _column("fact_id", sa.ForeignKey("facts.id", ondelete="CASCADE")),
    sa.Column("turn_id", sa.ForeignKey("turns.id", ondelete="CASCADE")),
    _column("subject", Text),
    _column("relation", Text),
    _column("value", Text),
    _column("value_key", Text),
    _column("negated", sa.Boolean),
    _column("is_state", sa.Boolean),
    _column("at", Real),
    sa.Column("valid_from", Real),
    sa.Column("valid_to", Real),
    sa.Column("closed_by", Whole),
    sa.Index("statements_by_subject", "user", "agent", "subject", "relation"),
    sa.Index("statements_by_value", "user", "agent", "subject", "value_key"),
    sa.Index("statements_by_fact", "fact_id"),
)

#: Counts what changed facts that were there: readers that keep them in memory read them again.
epochs = sa.Table(
    "epochs",
    metadata,
    sa.Column("user", Text, primary_key=True),
    sa.Column("agent", Text, primary_key=True),
    _column("epoch", Whole),
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
    _column("created", Real),
    _column("updated", Real),
)


def _drop_tables(*names: str) -> Migration:
    """Return the migration that drops those of the tables that are there."""

    def migrate(db: sa.Connection) -> None:
        for name in names:
            db.exec_driver_sql(f"DROP TABLE IF EXISTS {name}")

    return migrate


def _drop_names(db: sa.Connection) -> None:
    """Drop entities and relations (they are read when somebody looks); lineage is of turns alone."""
    there = set(sa.inspect(db).get_table_names())
    if "lineage" in there:
        db.exec_driver_sql(
            "INSERT INTO turn_lineage (turn_id, source_id) SELECT DISTINCT f.turn_id, l.source_id"
            " FROM lineage l JOIN fact_turns f ON f.fact_id = l.fact_id WHERE NOT EXISTS (SELECT 1"
            " FROM turn_lineage t WHERE t.turn_id = f.turn_id AND t.source_id = l.source_id)"
        )
    _drop_tables("relation_turns", "entity_relations", "fact_entities", "entities", "lineage")(db)


def _keep_index(db: sa.Connection) -> None:
    """Put a put's ``index`` in place of the texts that it chose; which fields these were is gone."""
    unsearched = items.c.searched == "[]"
    db.execute(items.update().values(searched=sa.case((unsearched, "false"), else_="null")))


#: Version by version; one that was released is never changed.
MEMORY = Schema(
    "long-term memory",
    (
        create_tables(turns, facts, fact_turns),
        create_tables(),
        create_tables(),
        create_tables(items),
        create_tables(statements, epochs),
        create_tables(turn_lineage),
        add_columns(
            *(c for table in (turns, facts) for c in table.c if c.server_default is not None)
        ),
        _drop_names,
        _drop_tables("exports", "contradictions"),
        _keep_index,
    ),
    fix="name another",
    durable=True,
    own_schema=False,
)


def raise_epoch(db: sa.Connection, namespace: Namespace) -> None:
    """Tell readers that facts of the namespace changed or went.

    The first epoch is the time in milliseconds: after :func:`drop_epoch` none comes again.
    """
    here = within(epochs, namespace)
    if not db.execute(epochs.update().where(*here).values(epoch=epochs.c.epoch + 1)).rowcount:
        db.execute(epochs.insert().values(**vars(namespace), epoch=time.time_ns() // 1_000_000))


def drop_epoch(db: sa.Connection, namespace: Namespace) -> None:
    """Tell readers that nothing is left of the namespace, its name neither."""
    db.execute(epochs.delete().where(*within(epochs, namespace)))


def within(
    table: sa.Table, namespace: Namespace
) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Return the conditions that keep a query to the namespace's own rows."""
    return table.c.user == namespace.user, table.c.agent == namespace.agent


def among(column: sa.ColumnElement[int], ids: Iterable[int]) -> sa.ColumnElement[bool]:
    """Return the condition that a number is one of ``ids``, however many: they are no parameters."""
    given = sa.bindparam(
        "ids", sorted(ids), sa.Integer, expanding=True, literal_execute=True, unique=True
    )
    return column.in_(given)


def key_of(inserted: sa.CursorResult[Any]) -> int:
    """Return the id of the row that was just inserted."""
    return int((inserted.inserted_primary_key or (0,))[0])
