"""Long-term memory: facts, entities and relations that outlive a conversation, in SQL.

SQLite (in WAL) by default, PostgreSQL by URL. Everything belongs to a namespace (user, agent). One
turn is one transaction, keyed by (episode, step): written once or not at all, however often tried.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from stores import long_term_schema as tables
from stores.errors import UserError
from stores.home import home

Vector = NDArray[np.float32]
#: Cosines from which two questions, and two answers, say the same.
SAME_QUESTION, SAME_ANSWER = 0.92, 0.9
#: Days after which a fact that was never confirmed has half its salience.
HALF_LIFE = 90.0
TOP_SALIENCE = 0.7
_DAY = 86400.0


@dataclass(frozen=True)
class Namespace:
    """Whose memory: nobody reads another user's."""

    user: str = "default"
    agent: str = "stategate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "user", _clean(self.user))
        object.__setattr__(self, "agent", _clean(self.agent))


@dataclass(frozen=True)
class Entity:
    """A phenomenon, location or person by its name."""

    kind: str
    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Relation:
    """``subject`` ``relation`` ``object``, such as Brinicle occurs_in Antarctica."""

    subject: Entity
    relation: str
    object: Entity


@dataclass(frozen=True)
class Turn:
    """One answered question, and where it happened. ``vector`` is the question's, unit length.

    ``about`` is what a question that points back into its conversation is about ("" for others):
    without it a fact would be unreadable in another conversation.
    """

    thread_id: str
    episode_id: str
    step: int
    question: str
    answer: str
    vector: Vector
    answer_vector: Vector
    embedder: str
    success: bool = True
    salience: float = 0.5
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    at: float | None = None
    about: str = ""


@dataclass(frozen=True)
class Fact:
    """A remembered answer. ``score`` is its relevance to what was asked; times in Unix seconds."""

    id: int
    question: str
    answer: str
    salience: float
    success: bool
    created: float
    updated: float
    times: int
    score: float = 0.0
    contradicts: tuple[int, ...] = ()
    turns: tuple[Mapping[str, Any], ...] = ()


class LongTerm:
    """One memory database. Safe for threads and processes; raises ``UserError`` if unusable."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._engine = _engine(url)
            with self.transaction(None) as db:
                tables.migrate(db)
        except (sa.exc.SQLAlchemyError, OSError, ImportError) as error:
            raise _unusable(url, error) from None

    def write(self, namespace: Namespace, turn: Turn) -> int | None:
        """Keep ``turn`` and return its fact's id, None if the turn was written before."""
        turn = _tidy(turn)
        now = time.time() if turn.at is None else turn.at
        with self.transaction(namespace) as db:
            if self._written(db, namespace, turn):
                return None
            made = db.execute(
                tables.turns.insert().values(
                    **vars(namespace), thread_id=turn.thread_id, episode_id=turn.episode_id,
                    step=turn.step, question=turn.question, answer=turn.answer,
                    about=turn.about, at=now,
                )
            )  # fmt: skip
            turn_id = _key(made)
            fact_id = self._fact(db, namespace, turn, now)
            db.execute(tables.fact_turns.insert().values(fact_id=fact_id, turn_id=turn_id))
            self._graph(db, namespace, turn, fact_id, turn_id, now)
        return fact_id

    def _written(self, db: sa.Connection, namespace: Namespace, turn: Turn) -> bool:
        query = sa.select(tables.turns.c.id).where(
            *_in(tables.turns, namespace),
            tables.turns.c.episode_id == turn.episode_id,
            tables.turns.c.step == turn.step,
        )
        return db.scalar(query) is not None

    def _fact(self, db: sa.Connection, namespace: Namespace, turn: Turn, now: float) -> int:
        """Merge the turn into a fact that says the same, or make one; note contradictions."""
        rows, similar = self._similar(db, namespace, turn.vector, turn.embedder)
        ids = [row.id for row, score in zip(rows, similar, strict=True) if score >= SAME_QUESTION]
        near = self._whole(db, ids)
        same = [row for row in near if row.success == turn.success and _agree(row, turn)]
        f = tables.facts.c
        if same:
            fact = same[0]
            salience = min(TOP_SALIENCE, max(fact.salience, turn.salience) + 0.05)
            change = {"times": fact.times + 1, "updated": now, "salience": salience}
            db.execute(tables.facts.update().where(f.id == fact.id).values(**change))
            return int(fact.id)
        made = db.execute(
            tables.facts.insert().values(
                **vars(namespace), question=_told(turn), answer=turn.answer,
                salience=turn.salience, success=turn.success, created=now, updated=now, times=1,
                embedder=turn.embedder,
                vector=_pack(turn.vector, turn.answer_vector),
            )
        )  # fmt: skip
        fact_id = _key(made)
        for other in near:
            if other.success and turn.success:
                pairs = [(fact_id, other.id), (other.id, fact_id)]
                values = [{"fact_id": a, "other_id": b, "at": now} for a, b in pairs]
                db.execute(tables.contradictions.insert(), values)
        return fact_id

    def _graph(
        self,
        db: sa.Connection,
        namespace: Namespace,
        turn: Turn,
        fact: int,
        turn_id: int,
        now: float,
    ) -> None:
        ids = {}
        linked = {
            row.entity_id
            for row in db.execute(
                sa.select(tables.fact_entities).where(tables.fact_entities.c.fact_id == fact)
            )
        }
        named = [*turn.entities, *(e for r in turn.relations for e in (r.subject, r.object))]
        for entity in named:
            key = (entity.kind, entity.name)
            if key not in ids:
                ids[key] = self._entity(db, namespace, entity, now)
                if ids[key] not in linked:
                    link = {"fact_id": fact, "entity_id": ids[key]}
                    db.execute(tables.fact_entities.insert().values(**link))
        for relation in dict.fromkeys(
            (ids[r.subject.kind, r.subject.name], r.relation, ids[r.object.kind, r.object.name])
            for r in turn.relations
        ):
            self._relation(db, relation, turn_id, now)

    def _entity(self, db: sa.Connection, namespace: Namespace, entity: Entity, now: float) -> int:
        e = tables.entities.c
        query = sa.select(tables.entities).where(
            *_in(tables.entities, namespace), e.kind == entity.kind, e.name == entity.name
        )
        known = db.execute(query).first()
        if known is None:
            attributes = json.dumps(dict(entity.attributes))
            values = {"kind": entity.kind, "name": entity.name, "attributes": attributes}
            made = db.execute(
                tables.entities.insert().values(**vars(namespace), **values, times=1, updated=now)
            )
            return _key(made)
        merged = json.dumps({**json.loads(known.attributes), **entity.attributes})
        change = {"times": known.times + 1, "updated": now, "attributes": merged}
        db.execute(tables.entities.update().where(e.id == known.id).values(**change))
        return int(known.id)

    def _relation(
        self, db: sa.Connection, relation: tuple[int, str, int], turn: int, now: float
    ) -> None:
        r = tables.entity_relations.c
        subject, name, object_ = relation
        same = (r.subject_id == subject, r.relation == name, r.object_id == object_)
        change = {"times": r.times + 1, "updated": now}
        done = db.execute(tables.entity_relations.update().where(*same).values(**change))
        if not done.rowcount:
            values = {"subject_id": subject, "relation": name, "object_id": object_}
            db.execute(
                tables.entity_relations.insert().values(
                    **values, turn_id=turn, times=1, updated=now
                )
            )

    def search(
        self,
        namespace: Namespace,
        vector: Vector | None,
        embedder: str,
        k: int = 5,
        min_salience: float = 0.3,
        now: float | None = None,
    ) -> list[Fact]:
        """Return up to ``k`` facts by relevance: cosine, weighed by salience after decay.

        A fact under ``min_salience`` by now is not read, nor one with nothing in common with what
        was asked. Without ``vector`` the newest come first.
        """
        moment = time.time() if now is None else now
        with self.transaction(namespace, writes=False) as db:
            rows, similar = self._similar(db, namespace, vector, embedder)
            scored = []
            for row, cosine in zip(rows, similar, strict=True):
                left = decayed(row.salience, moment - row.updated)
                if left >= min_salience and (vector is None or cosine > 0):
                    score = (
                        row.updated
                        if vector is None
                        else cosine * (0.7 + 0.3 * left / TOP_SALIENCE)
                    )
                    scored.append((score * (1.0 if row.success or vector is None else 0.8), row))
            scored.sort(key=lambda item: (-item[0], -item[1].id))
            best = {row.id: float(score) for score, row in scored[:k]}
            whole = {row.id: row for row in self._whole(db, list(best))}
            return [self._read(db, whole[id_], score) for id_, score in best.items()]

    def _whole(self, db: sa.Connection, ids: Sequence[int]) -> list[Any]:
        """Return facts with all their columns, by id."""
        if not ids:
            return []
        f = tables.facts.c
        return list(db.execute(sa.select(tables.facts).where(f.id.in_(ids)).order_by(f.id)))

    def _similar(
        self, db: sa.Connection, namespace: Namespace, vector: Vector | None, embedder: str
    ) -> tuple[list[Any], Vector]:
        """Return the namespace's facts without their texts, and each question's cosine."""
        f = tables.facts.c
        light = (f.id, f.salience, f.success, f.updated)
        if vector is None:
            rows = list(db.execute(sa.select(*light).where(*_in(tables.facts, namespace))))
            return rows, np.zeros(len(rows), dtype=np.float32)
        query = sa.select(*light, f.vector).where(*_in(tables.facts, namespace))
        rows = list(db.execute(query.where(f.embedder == embedder).order_by(f.id)))
        if not rows:
            return [], np.zeros(0, dtype=np.float32)
        stored = np.frombuffer(b"".join(row.vector for row in rows), dtype="<f2")
        questions = stored.reshape(len(rows), 2, -1)[:, 0].astype(np.float32)
        return rows, np.asarray(questions @ np.asarray(vector, dtype=np.float32))

    def _read(self, db: sa.Connection, row: Any, score: float) -> Fact:
        c, t = tables.contradictions.c, tables.turns.c
        others = db.scalars(sa.select(c.other_id).where(c.fact_id == row.id))
        joined = tables.turns.join(tables.fact_turns, t.id == tables.fact_turns.c.turn_id)
        sources = db.execute(
            sa.select(t.thread_id, t.episode_id, t.step, t.at)
            .select_from(joined)
            .where(tables.fact_turns.c.fact_id == row.id)
            .order_by(t.at)
        )
        return Fact(
            row.id, row.question, row.answer, row.salience, bool(row.success), row.created,
            row.updated, row.times, score, tuple(others), tuple(dict(s._mapping) for s in sources),
        )  # fmt: skip

    def graph(
        self, namespace: Namespace, about: str, facts: Sequence[Fact], entities: int, relations: int
    ) -> tuple[list[Entity], list[Relation]]:
        """Return entities named in ``about`` or by ``facts``, and the relations that touch them."""
        with self.transaction(namespace, writes=False) as db:
            rows = list(
                db.execute(
                    sa.select(tables.entities)
                    .where(*_in(tables.entities, namespace))
                    .order_by(tables.entities.c.times.desc(), tables.entities.c.id)
                )
            )
            fe = tables.fact_entities.c
            by_fact = set(
                db.scalars(sa.select(fe.entity_id).where(fe.fact_id.in_([f.id for f in facts])))
            )
            text = f" {about.lower()} "
            named = [row for row in rows if row.name.lower() in text]
            chosen = [*named, *(r for r in rows if r.id in by_fact and r not in named)][:entities]
            known = {row.id: Entity(row.kind, row.name, json.loads(row.attributes)) for row in rows}
            r = tables.entity_relations.c
            ids = [row.id for row in chosen]
            found = db.execute(
                sa.select(tables.entity_relations)
                .where(sa.or_(r.subject_id.in_(ids), r.object_id.in_(ids)))
                .order_by(r.times.desc(), r.id)
                .limit(relations)
            )
            related = [
                Relation(known[row.subject_id], row.relation, known[row.object_id])
                for row in found
                if row.subject_id in known and row.object_id in known
            ]
            return [known[row.id] for row in chosen], related

    def facts(self, namespace: Namespace) -> list[Fact]:
        """Return every fact, oldest first."""
        with self.transaction(namespace, writes=False) as db:
            query = sa.select(tables.facts).where(*_in(tables.facts, namespace))
            return [
                self._read(db, row, 0.0) for row in db.execute(query.order_by(tables.facts.c.id))
            ]

    def namespaces(self) -> list[Namespace]:
        """Return every user and agent of whom facts are remembered."""
        f = tables.facts.c
        with self.transaction(None, writes=False) as db:
            found = db.execute(sa.select(f.user, f.agent).distinct().order_by(f.user, f.agent))
            return [Namespace(*row) for row in found]

    def turns(self, namespace: Namespace) -> list[dict[str, Any]]:
        """Return every turn with its fact's salience and success, oldest first."""
        t, f = tables.turns.c, tables.facts.c
        joined = tables.turns.join(tables.fact_turns, t.id == tables.fact_turns.c.turn_id).join(
            tables.facts, f.id == tables.fact_turns.c.fact_id
        )
        columns = (t.thread_id, t.episode_id, t.step, t.question, t.answer, t.about, t.at)
        query = sa.select(*columns, f.salience, f.success).select_from(joined)
        with self.transaction(namespace, writes=False) as db:
            rows = db.execute(query.where(*_in(tables.turns, namespace)).order_by(t.at, t.id))
            return [dict(row._mapping) for row in rows]

    def forget(self, namespace: Namespace, ids: Sequence[int] | None = None) -> int:
        """Delete facts (all of the namespace without ``ids``), their turns, and entities left alone.

        Returns how many facts went. The turns' texts go too: what is forgotten is nowhere in here.
        """
        f, ft, fe = tables.facts.c, tables.fact_turns.c, tables.fact_entities.c
        with self.transaction(namespace) as db:
            query = sa.select(f.id).where(*_in(tables.facts, namespace))
            doomed = list(db.scalars(query if ids is None else query.where(f.id.in_(list(ids)))))
            turns = list(db.scalars(sa.select(ft.turn_id).where(ft.fact_id.in_(doomed))))
            of_facts = list(db.scalars(sa.select(fe.entity_id).where(fe.fact_id.in_(doomed))))
            c = tables.contradictions.c
            db.execute(
                tables.contradictions.delete().where(
                    sa.or_(c.fact_id.in_(doomed), c.other_id.in_(doomed))
                )
            )
            db.execute(tables.fact_entities.delete().where(fe.fact_id.in_(doomed)))
            db.execute(tables.fact_turns.delete().where(ft.fact_id.in_(doomed)))
            db.execute(tables.facts.delete().where(f.id.in_(doomed)))
            r = tables.entity_relations.c
            db.execute(tables.entity_relations.delete().where(r.turn_id.in_(turns)))
            db.execute(tables.turns.delete().where(tables.turns.c.id.in_(turns)))
            used = set(db.scalars(sa.select(fe.entity_id).where(fe.entity_id.in_(of_facts))))
            alone = [id_ for id_ in of_facts if id_ not in used]
            db.execute(
                tables.entity_relations.delete().where(
                    sa.or_(r.subject_id.in_(alone), r.object_id.in_(alone))
                )
            )
            db.execute(tables.entities.delete().where(tables.entities.c.id.in_(alone)))
            return len(doomed)

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


def decayed(salience: float, seconds: float) -> float:
    """Return what is left of ``salience`` when a fact was last confirmed ``seconds`` ago."""
    return float(salience * 0.5 ** (max(seconds, 0.0) / (_DAY * HALF_LIFE)))


def default_url() -> str:
    """Return the URL of this machine's own memory."""
    return f"sqlite:///{home() / 'long_term.sqlite'}"


def open_long_term(url: str | None = None) -> LongTerm:
    """Return the memory at ``url``, a file name or nothing for this machine's own; opened once."""
    if url is None:
        return _opened(default_url())
    return _opened(url if "://" in url else f"sqlite:///{Path(url).expanduser()}")


@lru_cache(maxsize=16)
def _opened(url: str) -> LongTerm:
    return LongTerm(url)


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
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA busy_timeout = 60000")

    return engine


def _tidy(turn: Turn) -> Turn:
    """Return ``turn`` with text that every database takes."""
    return replace(
        turn,
        thread_id=_clean(turn.thread_id),
        episode_id=_clean(turn.episode_id),
        question=_clean(turn.question),
        answer=_clean(turn.answer),
        about=_clean(turn.about),
        entities=tuple(_tidy_entity(e) for e in turn.entities),
        relations=tuple(
            Relation(_tidy_entity(r.subject), r.relation, _tidy_entity(r.object))
            for r in turn.relations
        ),
    )


def _tidy_entity(entity: Entity) -> Entity:
    return Entity(entity.kind, _clean(entity.name)[:300], entity.attributes)


def _told(turn: Turn) -> str:
    """Return the question as it can be read outside its conversation."""
    about = turn.about.strip().rstrip(".")
    return f"{turn.question} (about: {about})" if about else turn.question


def _agree(row: Any, turn: Turn) -> bool:
    """Say whether a fact's answer and the turn's are the same in meaning, numbers included."""
    if not turn.success:
        return True  # two failures to answer one question are one fact
    _, answer = _unpack(row.vector)
    near = float(answer @ np.asarray(turn.answer_vector, dtype=np.float32)) >= SAME_ANSWER
    return near and _numbers(row.answer) == _numbers(turn.answer)


def _numbers(text: str) -> set[str]:
    import re

    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def _pack(question: Vector, answer: Vector) -> bytes:
    return np.stack([question, answer]).astype("<f2").tobytes()


def _unpack(stored: bytes) -> Vector:
    return np.frombuffer(stored, dtype="<f2").astype(np.float32).reshape(2, -1)


def _in(table: sa.Table, namespace: Namespace) -> tuple[Any, Any]:
    return table.c.user == namespace.user, table.c.agent == namespace.agent


def _key(made: sa.CursorResult[Any]) -> int:
    return int((made.inserted_primary_key or (0,))[0])


def _clean(text: str) -> str:
    """Return text that every database takes: no lone surrogates, no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")


def _unusable(url: str, error: Exception) -> UserError:
    shown = sa.engine.make_url(url).render_as_string(hide_password=True) if "://" in url else url
    told = " ".join(str(getattr(error, "orig", None) or error).split())[:160]
    return UserError(f"cannot use the long-term memory {shown} ({told}): name another")
