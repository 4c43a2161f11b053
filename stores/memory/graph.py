"""Entities of long-term memory and the relations between them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from stategate.stores.files import parse_json
from stategate.stores.memory import database as tables
from stategate.stores.memory.database import among, key_of, within
from stategate.stores.memory.records import Entity, Fact, Namespace, Relation, Turn


def write_graph(
    db: sa.Connection, namespace: Namespace, turn: Turn, fact: int, turn_id: int, now: float
) -> None:
    """Keep what ``turn`` names, and link it to the fact ``fact``."""
    ids: dict[tuple[str, str], int] = {}
    fe = tables.fact_entities.c
    linked = set(db.scalars(sa.select(fe.entity_id).where(fe.fact_id == fact)))
    named = [*turn.entities, *(e for r in turn.relations for e in (r.subject, r.object))]
    for entity in named:
        key = (entity.kind, entity.name)
        if key not in ids:
            ids[key] = _write_entity(db, namespace, entity, now)
            if ids[key] not in linked:
                link = {"fact_id": fact, "entity_id": ids[key]}
                db.execute(tables.fact_entities.insert().values(**link))
    for relation in dict.fromkeys(
        (ids[r.subject.kind, r.subject.name], r.relation, ids[r.object.kind, r.object.name])
        for r in turn.relations
    ):
        _write_relation(db, relation, turn_id, now)


def _write_entity(db: sa.Connection, namespace: Namespace, entity: Entity, now: float) -> int:
    e = tables.entities.c
    query = sa.select(tables.entities).where(
        *within(tables.entities, namespace), e.kind == entity.kind, e.name == entity.name
    )
    known = db.execute(query).first()
    if known is None:
        attributes = json.dumps(dict(entity.attributes))
        values = {"kind": entity.kind, "name": entity.name, "attributes": attributes}
        inserted = db.execute(
            tables.entities.insert().values(**vars(namespace), **values, times=1, updated=now)
        )
        return key_of(inserted)
    merged = json.dumps(_merged(parse_json(known.attributes), entity.attributes))
    change = {"times": known.times + 1, "updated": now, "attributes": merged}
    db.execute(tables.entities.update().where(e.id == known.id).values(**change))
    return int(known.id)


def _merged(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; lists are joined, of single values the newer one stays."""
    both = {**known, **new}
    for key in known.keys() & new.keys():
        if isinstance(known[key], list) and isinstance(new[key], list):
            both[key] = list(dict.fromkeys([*known[key], *new[key]]))
    return both


def _write_relation(
    db: sa.Connection, relation: tuple[int, str, int], turn: int, now: float
) -> None:
    r = tables.entity_relations.c
    subject, name, object_ = relation
    same = (r.subject_id == subject, r.relation == name, r.object_id == object_)
    number = db.scalar(sa.select(r.id).where(*same))
    if number is None:
        values = {"subject_id": subject, "relation": name, "object_id": object_}
        inserted = db.execute(
            tables.entity_relations.insert().values(**values, turn_id=turn, times=1, updated=now)
        )
        number = key_of(inserted)
    else:
        change = {"times": r.times + 1, "updated": now}
        db.execute(tables.entity_relations.update().where(r.id == number).values(**change))
    db.execute(tables.relation_turns.insert().values(relation_id=number, turn_id=turn))


def erase_graph(
    db: sa.Connection, entities: set[int], turns: set[int], texts: Sequence[str]
) -> None:
    """Delete what ``turns`` alone tell: relations, ``entities`` that no fact names any more.

    Call it before the turns are deleted and after their facts are. Of entities that stay, attributes go
    that stand in the forgotten ``texts``.
    """
    e, r, rt = tables.entities.c, tables.entity_relations.c, tables.relation_turns.c
    fe = tables.fact_entities.c
    told = set(db.scalars(sa.select(rt.relation_id).where(among(rt.turn_id, turns))))
    told |= set(db.scalars(sa.select(r.id).where(among(r.turn_id, turns))))
    others = sa.select(rt.relation_id, sa.func.min(rt.turn_id).label("turn_id"), sa.func.count())
    others = others.where(among(rt.relation_id, told), ~among(rt.turn_id, turns))
    left = {row[0]: row for row in db.execute(others.group_by(rt.relation_id))}
    db.execute(tables.entity_relations.delete().where(among(r.id, told - left.keys())))
    for number, turn, count in left.values():
        change = {"turn_id": turn, "times": count}
        db.execute(tables.entity_relations.update().where(r.id == number).values(**change))
    named = set(db.scalars(sa.select(fe.entity_id).where(among(fe.entity_id, entities))))
    db.execute(tables.entities.delete().where(among(e.id, entities - named)))
    gone = "\n".join(texts).lower()
    for row in list(db.execute(sa.select(e.id, e.attributes).where(among(e.id, named)))):
        known = parse_json(row.attributes)
        kept = {key: _without(value, gone) for key, value in known.items()}
        kept = {key: value for key, value in kept.items() if value}
        if kept != known:
            change = {"attributes": json.dumps(kept)}
            db.execute(tables.entities.update().where(e.id == row.id).values(**change))


def _without(value: Any, gone: str) -> Any:
    if isinstance(value, list):
        return [one for one in value if str(one).lower() not in gone]
    return None if str(value).lower() in gone else value


def read_graph(
    db: sa.Connection,
    namespace: Namespace,
    about: str,
    facts: Sequence[Fact],
    entities: int,
    relations: int,
) -> tuple[list[Entity], list[Relation]]:
    """Return entities named in ``about`` or by ``facts``, and the relations that touch them."""
    e, r, fe = tables.entities.c, tables.entity_relations.c, tables.fact_entities.c
    query = sa.select(tables.entities).where(*within(tables.entities, namespace))
    rows = list(db.execute(query.order_by(e.times.desc(), e.id)))
    by_fact = set(db.scalars(sa.select(fe.entity_id).where(fe.fact_id.in_([f.id for f in facts]))))
    text = f" {about.lower()} "
    named = [row for row in rows if _is_named(row, text)]
    chosen = [*named, *(row for row in rows if row.id in by_fact and row not in named)][:entities]
    ids = [row.id for row in chosen]
    worth = _trusts(db, namespace)
    known = {
        row.id: Entity(row.kind, row.name, parse_json(row.attributes), worth.get(row.id, 1.0))
        for row in rows
    }
    touching = list(
        db.execute(
            sa.select(tables.entity_relations)
            .where(sa.or_(r.subject_id.in_(ids), r.object_id.in_(ids)))
            .order_by(r.times.desc(), r.id)
            .limit(relations)
        )
    )
    trust = _told_by(db, [row.id for row in touching])
    related = [
        Relation(known[row.subject_id], row.relation, known[row.object_id], trust.get(row.id, 1.0))
        for row in touching
        if row.subject_id in known and row.object_id in known
    ]
    return [known[row.id] for row in chosen], related


def _trusts(db: sa.Connection, namespace: Namespace) -> dict[int, float]:
    """Return how far each entity is trusted: as the best of the facts that name it."""
    f, fe = tables.facts.c, tables.fact_entities.c
    query = sa.select(fe.entity_id, sa.func.max(f.trust)).select_from(
        tables.fact_entities.join(tables.facts, f.id == fe.fact_id)
    )
    query = query.where(*within(tables.facts, namespace)).group_by(fe.entity_id)
    return {row[0]: float(row[1]) for row in db.execute(query)}


def _told_by(db: sa.Connection, relations: Sequence[int]) -> dict[int, float]:
    """Return how far each relation is trusted: as the best of the turns that tell it."""
    t, rt = tables.turns.c, tables.relation_turns.c
    query = sa.select(rt.relation_id, sa.func.max(t.trust)).select_from(
        tables.relation_turns.join(tables.turns, t.id == rt.turn_id)
    )
    query = query.where(among(rt.relation_id, relations)).group_by(rt.relation_id)
    return {row[0]: float(row[1]) for row in db.execute(query)}


def _is_named(row: Any, text: str) -> bool:
    """Say whether ``text`` (lower case) holds the entity's name or another name of it."""
    others = parse_json(row.attributes).get("also_known_as", [])
    return any(str(name).lower() in text for name in (row.name, *others))
