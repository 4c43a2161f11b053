"""Forgetting: what goes with a fact, so that nothing of it stays behind."""

from collections.abc import Sequence

import sqlalchemy as sa

from stores.memory import schema as tables
from stores.memory.database import within
from stores.memory.records import Namespace


def forget_facts(db: sa.Connection, namespace: Namespace, ids: Sequence[int] | None) -> int:
    """Delete facts (all of the namespace without ``ids``) and all that only they knew.

    Returns how many facts went.
    """
    f, ft = tables.facts.c, tables.fact_turns.c
    c, fe = tables.contradictions.c, tables.fact_entities.c
    query = sa.select(f.id).where(*within(tables.facts, namespace))
    doomed = list(db.scalars(query if ids is None else query.where(f.id.in_(list(ids)))))
    turns = list(db.scalars(sa.select(ft.turn_id).where(ft.fact_id.in_(doomed))))
    entities = list(db.scalars(sa.select(fe.entity_id).where(fe.fact_id.in_(doomed))))
    contradicted = sa.or_(c.fact_id.in_(doomed), c.other_id.in_(doomed))
    db.execute(tables.contradictions.delete().where(contradicted))
    db.execute(tables.fact_entities.delete().where(fe.fact_id.in_(doomed)))
    db.execute(tables.fact_turns.delete().where(ft.fact_id.in_(doomed)))
    db.execute(tables.facts.delete().where(f.id.in_(doomed)))
    _forget_turns(db, turns)
    used = set(db.scalars(sa.select(fe.entity_id).where(fe.entity_id.in_(entities))))
    _forget_entities(db, [id_ for id_ in entities if id_ not in used])
    return len(doomed)


def _forget_turns(db: sa.Connection, turns: Sequence[int]) -> None:
    r = tables.entity_relations.c
    db.execute(tables.entity_relations.delete().where(r.turn_id.in_(turns)))
    db.execute(tables.turns.delete().where(tables.turns.c.id.in_(turns)))


def _forget_entities(db: sa.Connection, entities: Sequence[int]) -> None:
    r = tables.entity_relations.c
    touching = sa.or_(r.subject_id.in_(entities), r.object_id.in_(entities))
    db.execute(tables.entity_relations.delete().where(touching))
    db.execute(tables.entities.delete().where(tables.entities.c.id.in_(entities)))
