"""Facts of long-term memory: found by meaning, merged where they say the same, or contradicted."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from stores.memory import database as tables
from stores.memory.database import key_of, within
from stores.memory.records import Fact, Namespace, Turn, Vector

#: Cosines from which two questions, and two answers, say the same.
SAME_QUESTION, SAME_ANSWER = 0.92, 0.9
#: Days after which a fact that was never confirmed has half its salience.
HALF_LIFE = 90.0
TOP_SALIENCE = 0.7
_DAY = 86400.0
_ASKING = re.compile(r"\b(?:who|whom|whose|when|where|why|how|which|what)\b")


def decayed(salience: float, seconds: float) -> float:
    """Return what is left of ``salience`` when a fact was last confirmed ``seconds`` ago."""
    return float(salience * 0.5 ** (max(seconds, 0.0) / (_DAY * HALF_LIFE)))


def write_fact(db: sa.Connection, namespace: Namespace, turn: Turn, now: float) -> int:
    """Merge the turn into a fact that says the same, or make one; note contradictions.

    Returns the fact's id.
    """
    rows, similar = similar_facts(db, namespace, turn.vector, turn.embedder)
    ids = [row.id for row, score in zip(rows, similar, strict=True) if score >= SAME_QUESTION]
    near = [row for row in whole_facts(db, ids) if _ask_alike(row.question, _told(turn))]
    same = [row for row in near if row.success == turn.success and _agree(row, turn)]
    f = tables.facts.c
    if same:
        fact = same[0]
        salience = min(TOP_SALIENCE, max(fact.salience, turn.salience) + 0.05)
        change = {"times": fact.times + 1, "updated": now, "salience": salience}
        db.execute(tables.facts.update().where(f.id == fact.id).values(**change))
        return int(fact.id)
    inserted = db.execute(
        tables.facts.insert().values(
            **vars(namespace), question=_told(turn), answer=turn.answer,
            salience=turn.salience, success=turn.success, created=now, updated=now, times=1,
            embedder=turn.embedder,
            vector=np.stack([turn.vector, turn.answer_vector]).astype("<f2").tobytes(),
        )
    )  # fmt: skip
    fact_id = key_of(inserted)
    for other in near:
        if other.success and turn.success:
            pairs = [(fact_id, other.id), (other.id, fact_id)]
            values = [{"fact_id": a, "other_id": b, "at": now} for a, b in pairs]
            db.execute(tables.contradictions.insert(), values)
    return fact_id


def similar_facts(
    db: sa.Connection, namespace: Namespace, vector: Vector | None, embedder: str
) -> tuple[list[Any], Vector]:
    """Return the namespace's facts without their texts, and each question's cosine."""
    f = tables.facts.c
    light = (f.id, f.salience, f.success, f.updated)
    if vector is None:
        rows = list(db.execute(sa.select(*light).where(*within(tables.facts, namespace))))
        return rows, np.zeros(len(rows), dtype=np.float32)
    query = sa.select(*light, f.vector).where(*within(tables.facts, namespace))
    rows = list(db.execute(query.where(f.embedder == embedder).order_by(f.id)))
    if not rows:
        return [], np.zeros(0, dtype=np.float32)
    stored = np.frombuffer(b"".join(row.vector for row in rows), dtype="<f2")
    questions = stored.reshape(len(rows), 2, -1)[:, 0].astype(np.float32)
    return rows, np.asarray(questions @ np.asarray(vector, dtype=np.float32))


def whole_facts(db: sa.Connection, ids: Sequence[int]) -> list[Any]:
    """Return facts with all their columns, by id."""
    if not ids:
        return []
    f = tables.facts.c
    return list(db.execute(sa.select(tables.facts).where(f.id.in_(ids)).order_by(f.id)))


def as_fact(db: sa.Connection, row: Any, score: float = 0.0) -> Fact:
    """Return a row as a fact, with the turns it came from and what contradicts it."""
    c = tables.contradictions.c
    others = db.scalars(sa.select(c.other_id).where(c.fact_id == row.id))
    return Fact(
        row.id, row.question, row.answer, row.salience, bool(row.success), row.created,
        row.updated, row.times, score, tuple(others), _sources(db, row.id),
    )  # fmt: skip


def _sources(db: sa.Connection, fact: int) -> tuple[Mapping[str, Any], ...]:
    t, ft = tables.turns.c, tables.fact_turns.c
    query = (
        sa.select(t.thread_id, t.episode_id, t.step, t.at)
        .select_from(tables.turns.join(tables.fact_turns, t.id == ft.turn_id))
        .where(ft.fact_id == fact)
        .order_by(t.at)
    )
    return tuple(dict(source._mapping) for source in db.execute(query))


def _agree(row: Any, turn: Turn) -> bool:
    """Say whether a fact's answer and the turn's are the same in meaning, numbers included."""
    if not turn.success:
        return True  # two failures to answer one question are one fact
    answer = np.frombuffer(row.vector, dtype="<f2").astype(np.float32).reshape(2, -1)[1]
    near = float(answer @ np.asarray(turn.answer_vector, dtype=np.float32)) >= SAME_ANSWER
    return near and _numbers(row.answer) == _numbers(turn.answer)


def _told(turn: Turn) -> str:
    """Return the question as it can be read outside its conversation."""
    about = turn.about.strip().rstrip(".")
    return f"{turn.question} (about: {about})" if about else turn.question


def _numbers(text: str) -> set[str]:
    """Return the numbers that ``text`` names."""
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def _ask_alike(one: str, other: str) -> bool:
    """Say whether two questions ask for the same kind of thing, about the same numbers.

    "Who placed the buoy?" and, of the same buoy, "When was that?" are near in meaning, but another
    answer to the second is no contradiction of the first.
    """
    words = [set(_ASKING.findall(text.partition(" (about: ")[0].lower())) for text in (one, other)]
    return words[0] == words[1] and _numbers(one) == _numbers(other)
