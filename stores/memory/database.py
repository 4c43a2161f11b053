"""The database under long-term memory: its tables and their versions, in SQLite or PostgreSQL."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stategate.stores.errors import UserError, describe_error
from stategate.stores.memory.records import Namespace
from stategate.stores.sqlite import DAMAGE, compact, prepare

metadata = sa.MetaData()


def _column(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _added(name: str, kind: Any, value: str) -> sa.Column[Any]:
    """Return a column that came later: rows of an older memory have ``value`` there."""
    return sa.Column(name, kind, nullable=False, server_default=value)


def _keys(**tables: str) -> list[sa.Column[Any]]:
    """Return columns that link rows of ``tables``; a link goes with either row."""
    targets = {name: f"{table}.id" for name, table in tables.items()}
    return [
        sa.Column(name, sa.ForeignKey(target, ondelete="CASCADE"), primary_key=True)
        for name, target in targets.items()
    ]


versions = sa.Table(
    "schema_versions",
    metadata,
    sa.Column("version", sa.Integer, primary_key=True),
    _column("at", sa.Float),
)

#: Every turn that was written, once: (episode, step) is what makes a retried write harmless.
turns = sa.Table(
    "turns",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _column("user", sa.String(200)),
    _column("agent", sa.String(200)),
    _column("thread_id", sa.String(300)),
    _column("episode_id", sa.String(300)),
    _column("step", sa.Integer),
    _column("question", sa.Text),
    _column("answer", sa.Text),
    _column("about", sa.Text),
    _column("at", sa.Float),
    _added("speaker", sa.String(200), ""),
    _added("source", sa.String(300), "user"),
    _added("trust", sa.Float, "1.0"),
    sa.UniqueConstraint("user", "agent", "episode_id", "step"),
)

facts = sa.Table(
    "facts",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _column("user", sa.String(200)),
    _column("agent", sa.String(200)),
    _column("question", sa.Text),
    _column("answer", sa.Text),
    _column("salience", sa.Float),
    _column("success", sa.Boolean),
    _column("created", sa.Float),
    _column("updated", sa.Float),
    _column("times", sa.Integer),
    _column("embedder", sa.String(200)),
    _column("vector", sa.LargeBinary),
    _added("speaker", sa.String(200), ""),
    _added("source", sa.String(300), "user"),
    _added("trust", sa.Float, "1.0"),
    _added("dimension", sa.Integer, "0"),
    sa.Index("facts_by_namespace", "user", "agent"),
)

#: Provenance: which turns a fact came from (several where near-duplicates were merged).
fact_turns = sa.Table("fact_turns", metadata, *_keys(fact_id="facts", turn_id="turns"))

#: Facts that answer one question differently; both are kept, with their times.
contradictions = sa.Table(
    "contradictions", metadata, *_keys(fact_id="facts", other_id="facts"), _column("at", sa.Float)
)

#: Items of other LangGraph graphs that use this memory as their ``store`` (see langgraph_store).
items = sa.Table(
    "items",
    metadata,
    sa.Column("namespace", sa.String(500), primary_key=True),
    sa.Column("key", sa.String(300), primary_key=True),
    _column("value", sa.Text),
    _column("searched", sa.Text),
    _column("created", sa.Float),
    _column("updated", sa.Float),
)

#: What turns state of whom, and for which time; a later turn closes a state, it does not delete it.
statements = sa.Table(
    "statements",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _column("user", sa.String(200)),
    _column("agent", sa.String(200)),
    _column("fact_id", sa.ForeignKey("facts.id", ondelete="CASCADE")),
    sa.Column("turn_id", sa.ForeignKey("turns.id", ondelete="CASCADE")),
    _column("subject", sa.String(200)),
    _column("relation", sa.String(200)),
    _column("value", sa.Text),
    _column("value_key", sa.String(200)),
    _column("negated", sa.Boolean),
    _column("is_state", sa.Boolean),
    _column("at", sa.Float),
    sa.Column("valid_from", sa.Float),
    sa.Column("valid_to", sa.Float),
    sa.Column("closed_by", sa.Integer),
    sa.Index("statements_by_subject", "user", "agent", "subject", "relation"),
    sa.Index("statements_by_value", "user", "agent", "subject", "value_key"),
    sa.Index("statements_by_fact", "fact_id"),
)

#: The facts that a turn was made from: it is trusted no more than these, and goes when they are
#: forgotten; a fact that somebody told in other turns, too, stays with those.
turn_lineage = sa.Table(
    "turn_lineage",
    metadata,
    sa.Column("turn_id", sa.ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("source_id", sa.Integer, primary_key=True),
)

#: Files that turns were exported to: they are the user's own, and named when something is forgotten.
exports = sa.Table(
    "exports",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    _column("user", sa.String(200)),
    _column("agent", sa.String(200)),
    _column("path", sa.Text),
    _column("at", sa.Float),
)

#: Counts what changed facts that were there: readers that keep them in memory read them again.
epochs = sa.Table(
    "epochs",
    metadata,
    sa.Column("user", sa.String(200), primary_key=True),
    sa.Column("agent", sa.String(200), primary_key=True),
    _column("epoch", sa.Integer),
)

#: What each version adds, in order; a version that was released is never changed. Columns that came
#: later (``_added``) are added to tables that lack them.
MIGRATIONS: tuple[Sequence[sa.Table], ...] = (
    (turns, facts, fact_turns),
    (),
    (contradictions,),
    (items,),
    (statements, epochs, exports),
    (turn_lineage,),
    (),  # see _drop_names
)
#: Tables of versions before the seventh, each before those that it refers to.
_DROPPED = ("relation_turns", "entity_relations", "fact_entities", "entities", "lineage")


class Database:
    """The engine of one memory. Safe for threads and processes; raises ``UserError`` if unusable."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._engine = _engine(url)
            with self.transaction(None) as db:
                _migrate(db)
        except (sa.exc.SQLAlchemyError, OSError, ImportError) as error:
            raise _unusable(url, error) from None

    @contextmanager
    def transaction(
        self, namespace: Namespace | None, writes: bool = True
    ) -> Iterator[sa.Connection]:
        """One transaction; writers of a database (SQLite) or a namespace (PostgreSQL) take turns.

        Two sessions that write the same fact at once would otherwise both find none to merge with.
        """
        try:
            with self._engine.begin() as db:
                if self._engine.dialect.name == "sqlite":
                    db.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
                elif writes:
                    name = (
                        "migrations" if namespace is None else f"{namespace.user}/{namespace.agent}"
                    )
                    db.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(name))))
                yield db
        except sa.exc.SQLAlchemyError as error:
            raise _unusable(self.url, error) from error
        except DAMAGE as error:  # a value that is not what its column holds
            raise _unusable(self.url, error, "damaged, restore it from a backup: ") from error

    def tidy_file(self) -> None:
        """Bring the write-ahead log into the file, so that what was deleted is not left in it."""
        if self.file is not None:
            try:
                compact(self.file)
            except sqlite3.Error as error:
                what = "what was deleted may still be in the file, delete it again: "
                raise _unusable(self.url, error, what) from None

    @property
    def file(self) -> Path | None:
        """The database's file, None for PostgreSQL."""
        name = self._engine.url.database
        return Path(name) if self._engine.dialect.name == "sqlite" and name else None

    def tables_with(self, text: str) -> list[str]:
        """Return the tables that hold ``text`` in any of their texts."""
        holding = []
        with self.transaction(None, writes=False) as db:
            for table in metadata.sorted_tables:
                columns = [c for c in table.columns if isinstance(c.type, sa.String)]
                found = [c.contains(text, autoescape=True) for c in columns]
                if found and db.execute(sa.select(sa.literal(1)).where(sa.or_(*found))).first():
                    holding.append(table.name)
        return holding


def bump(db: sa.Connection, namespace: Namespace) -> None:
    """Tell readers that facts of the namespace changed or went."""
    here = within(epochs, namespace)
    if not db.execute(epochs.update().where(*here).values(epoch=epochs.c.epoch + 1)).rowcount:
        db.execute(epochs.insert().values(**vars(namespace), epoch=1))


def within(table: sa.Table, namespace: Namespace) -> tuple[Any, Any]:
    """Return the conditions that keep a query to the namespace's own rows."""
    return table.c.user == namespace.user, table.c.agent == namespace.agent


def among(column: Any, ids: Iterable[int]) -> Any:
    """Return the condition that a number is one of ``ids``, however many: they are no parameters."""
    given = sa.bindparam(
        "ids", sorted(ids), sa.Integer, expanding=True, literal_execute=True, unique=True
    )
    return column.in_(given)


def key_of(inserted: sa.CursorResult[Any]) -> int:
    """Return the id of the row that was just inserted."""
    return int((inserted.inserted_primary_key or (0,))[0])


def _engine(url: str) -> sa.Engine:
    if url.startswith(("postgresql://", "postgres://")):
        url = "postgresql+psycopg://" + url.partition("://")[2]
        return sa.create_engine(url, pool_size=16, pool_pre_ping=True)
    if not url.startswith("sqlite:"):
        raise UserError("long-term memory is a file or a sqlite:/// or postgresql:// URL")
    Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, connect_args={"timeout": 60})

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        # The driver's own BEGIN comes too late and too weak; `transaction` sends it (SQLAlchemy's
        # documented recipe for SQLite).
        connection.isolation_level = None
        prepare(connection, 60.0)
        connection.execute("PRAGMA secure_delete = ON")  # forgotten text is overwritten

    return engine


def _unusable(url: str, error: Exception, what: str = "") -> UserError:
    shown = sa.engine.make_url(url).render_as_string(hide_password=True) if "://" in url else url
    reason = what + describe_error(getattr(error, "orig", None) or error)
    return UserError(f"cannot use the long-term memory {shown} ({reason}): name another")


def _migrate(connection: sa.Connection) -> None:
    """Bring the database up to this version, each step once. Raises ``UserError`` if it is newer."""
    versions.create(connection, checkfirst=True)
    done = set(connection.scalars(sa.select(versions.c.version)))
    if done and max(done) > len(MIGRATIONS):
        raise UserError(
            f"the memory is of version {max(done)}, this Stategate knows {len(MIGRATIONS)}: update it"
        )
    known = set(sa.inspect(connection).get_table_names())
    for version, new in enumerate(MIGRATIONS, 1):
        if version in done:
            continue
        for table in new:
            if table.name not in known:
                table.create(connection)
        connection.execute(versions.insert().values(version=version, at=time.time()))
    if len(MIGRATIONS) not in done:
        _drop_names(connection, known)
    for table in (turns, facts):
        there = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                kind = column.type.compile(connection.dialect)
                given = f"'{column.server_default.arg}'"  # type: ignore[union-attr]
                connection.exec_driver_sql(
                    f'ALTER TABLE {table.name} ADD COLUMN "{column.name}" {kind} '
                    f"NOT NULL DEFAULT {given}"
                )


def _drop_names(connection: sa.Connection, known: set[str]) -> None:
    """Version 7: names are read when somebody looks, and what a fact was made from is its turns'."""
    if "lineage" in known:
        connection.exec_driver_sql(
            "INSERT INTO turn_lineage (turn_id, source_id) SELECT DISTINCT f.turn_id, l.source_id"
            " FROM lineage l JOIN fact_turns f ON f.fact_id = l.fact_id WHERE NOT EXISTS (SELECT 1"
            " FROM turn_lineage t WHERE t.turn_id = f.turn_id AND t.source_id = l.source_id)"
        )
    for name in _DROPPED:
        if name in known:
            connection.exec_driver_sql(f"DROP TABLE {name}")
