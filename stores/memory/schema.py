"""The tables of long-term memory, and the ordered migrations that make them."""

import time
from collections.abc import Sequence

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
)

from stores.errors import UserError

metadata = MetaData()

versions = Table(
    "schema_versions", metadata,
    Column("version", Integer, primary_key=True), Column("at", Float, nullable=False),
)  # fmt: skip

#: Every turn that was written, once: (episode, step) is what makes a retried write harmless.
turns = Table(
    "turns", metadata,
    Column("id", Integer, primary_key=True),
    Column("user", String(200), nullable=False), Column("agent", String(200), nullable=False),
    Column("thread_id", String(300), nullable=False),
    Column("episode_id", String(300), nullable=False), Column("step", Integer, nullable=False),
    Column("question", Text, nullable=False), Column("answer", Text, nullable=False),
    Column("about", Text, nullable=False), Column("at", Float, nullable=False),
    UniqueConstraint("user", "agent", "episode_id", "step"),
)  # fmt: skip

facts = Table(
    "facts", metadata,
    Column("id", Integer, primary_key=True),
    Column("user", String(200), nullable=False), Column("agent", String(200), nullable=False),
    Column("question", Text, nullable=False), Column("answer", Text, nullable=False),
    Column("salience", Float, nullable=False), Column("success", Boolean, nullable=False),
    Column("created", Float, nullable=False), Column("updated", Float, nullable=False),
    Column("times", Integer, nullable=False), Column("embedder", String(200), nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Index("facts_by_namespace", "user", "agent"),
)  # fmt: skip

#: Provenance: which turns a fact came from (several where near-duplicates were merged).
fact_turns = Table(
    "fact_turns", metadata,
    Column("fact_id", ForeignKey("facts.id", ondelete="CASCADE"), primary_key=True),
    Column("turn_id", ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
)  # fmt: skip

#: Facts that answer one question differently; both are kept, with their times.
contradictions = Table(
    "contradictions", metadata,
    Column("fact_id", ForeignKey("facts.id", ondelete="CASCADE"), primary_key=True),
    Column("other_id", ForeignKey("facts.id", ondelete="CASCADE"), primary_key=True),
    Column("at", Float, nullable=False),
)  # fmt: skip

entities = Table(
    "entities", metadata,
    Column("id", Integer, primary_key=True),
    Column("user", String(200), nullable=False), Column("agent", String(200), nullable=False),
    Column("kind", String(20), nullable=False), Column("name", String(300), nullable=False),
    Column("attributes", Text, nullable=False), Column("times", Integer, nullable=False),
    Column("updated", Float, nullable=False),
    UniqueConstraint("user", "agent", "kind", "name"),
)  # fmt: skip

entity_relations = Table(
    "entity_relations", metadata,
    Column("id", Integer, primary_key=True),
    Column("subject_id", ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
    Column("relation", String(40), nullable=False),
    Column("object_id", ForeignKey("entities.id", ondelete="CASCADE"), nullable=False),
    Column("turn_id", ForeignKey("turns.id", ondelete="SET NULL")),
    Column("times", Integer, nullable=False), Column("updated", Float, nullable=False),
    UniqueConstraint("subject_id", "relation", "object_id"),
)  # fmt: skip

#: Which entities a fact names; what goes with the fact when it is forgotten.
fact_entities = Table(
    "fact_entities", metadata,
    Column("fact_id", ForeignKey("facts.id", ondelete="CASCADE"), primary_key=True),
    Column("entity_id", ForeignKey("entities.id", ondelete="CASCADE"), primary_key=True),
)  # fmt: skip

#: Items of other LangGraph graphs that use this memory as their ``store`` (see langgraph_store).
items = Table(
    "items", metadata,
    Column("namespace", String(500), primary_key=True), Column("key", String(300), primary_key=True),
    Column("value", Text, nullable=False), Column("searched", Text, nullable=False),
    Column("created", Float, nullable=False), Column("updated", Float, nullable=False),
)  # fmt: skip

#: What each version adds, in order; a version that was released is never changed.
MIGRATIONS: tuple[Sequence[Table], ...] = (
    (turns, facts, fact_turns),
    (entities, entity_relations, fact_entities),
    (contradictions,),
    (items,),
)


def migrate(connection: Connection) -> None:
    """Bring the database up to this version, each step once. Raises ``UserError`` if it is newer."""
    versions.create(connection, checkfirst=True)
    done = set(connection.scalars(select(versions.c.version)))
    if done and max(done) > len(MIGRATIONS):
        raise UserError(
            f"the memory is of version {max(done)}, this Stategate knows {len(MIGRATIONS)}: update it"
        )
    known = set(inspect(connection).get_table_names())
    for version, tables in enumerate(MIGRATIONS, 1):
        if version in done:
            continue
        for table in tables:
            if table.name not in known:
                table.create(connection)
        connection.execute(versions.insert().values(version=version, at=time.time()))
