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

#: What turns state, sentence by sentence, and since when.
statements = _table(
    "sentences",
    _column("fact_id", sa.ForeignKey("facts.id", ondelete="CASCADE")),
    _column("text", Text),
    _column("is_wish", sa.Boolean),
    _column("at", sa.Float),
    _column("since", sa.Float),
    sa.Index("sentences_by_fact", "fact_id"),
)

#: Which statements a later fact ends, and when: the first ending counts. A fact that is forgotten takes
#: its endings with it.
endings = _table(
    "endings",
    _column("statement_id", sa.ForeignKey("sentences.id", ondelete="CASCADE")),
    _column("fact_id", sa.ForeignKey("facts.id", ondelete="CASCADE")),
    _column("at", sa.Float),
    sa.UniqueConstraint("statement_id", "fact_id"),
    sa.Index("endings_by_fact", "fact_id"),
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


def _from_11(db: sa.Connection) -> None:
    """Turn a store of version 11, which had subjects, relations and values, into statements."""
    create_tables(statements, endings)(db)
    if "statements" not in sa.inspect(db).get_table_names():
        return
    old = sa.Table("statements", sa.MetaData(), autoload_with=db)
    rows = db.execute(sa.select(old, facts.c.text).join(facts, facts.c.id == old.c.fact_id))
    # Of one fact, all that was no wish becomes one statement, which ended when the last of them did.
    found: dict[tuple[int, str], Any] = {}
    for row in rows:
        is_wish = row.relation == "wishes"
        place = row.fact_id, row.value if is_wish else row.text
        own = found.setdefault(place, {"row": row, "is_wish": is_wish, "ends": []})
        own["ends"].append((row.valid_to or row.at, row.closed_by))
    for (fact, text), one in found.items():
        row = one["row"]
        values = {"user": row.user, "fact_id": fact, "text": text, "at": row.at}
        values |= {"is_wish": one["is_wish"], "since": row.valid_from or row.at}
        number = db.scalar(statements.insert().values(**values).returning(statements.c.id))
        if all(closer is not None for _, closer in one["ends"]):
            at, closer = max(one["ends"])
            ended = {"user": row.user, "statement_id": number, "fact_id": closer, "at": at}
            if db.scalar(sa.select(facts.c.id).where(facts.c.id == closer)):
                db.execute(endings.insert().values(**ended))
    old.drop(db)


#: Versions before 11 kept answers, and facts apart from turns.
MEMORY = Schema(
    "long-term memory",
    (create_tables(facts, items), _from_11),
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
