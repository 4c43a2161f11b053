"""Erasing from a memory: facts with their turns, what they state and name, and what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from stores.memory import database as tables
from stores.memory.database import bump, within
from stores.memory.records import Namespace


@dataclass(frozen=True)
class Erased:
    """What went: facts by number, the texts that they held, and the episodes and threads they were of.

    ``threads`` are those of whose turns nothing is left, ``touched`` all that lost one. ``speakers``
    and ``abouts`` are what stood in front of the texts where they were embedded.
    """

    facts: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    turns: tuple[tuple[str, int], ...] = ()
    speakers: tuple[str, ...] = ()
    abouts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.facts or self.turns)


def erase_facts(
    db: sa.Connection,
    namespace: Namespace,
    ids: Sequence[int] | None,
    thread: str | None,
    source: str | None,
) -> Erased:
    """Delete facts and all that hangs on them; everything of the namespace where nothing is named."""
    t, f, ft = tables.turns.c, tables.facts.c, tables.fact_turns.c
    fe, e, r = tables.fact_entities.c, tables.entities.c, tables.entity_relations.c
    own = within(tables.facts, namespace)
    everything = ids is None and thread is None and source is None
    if thread is not None or source is not None:
        named = [*within(tables.turns, namespace)]
        named += [t.thread_id == thread] if thread is not None else []
        named += [t.source == source] if source is not None else []
        turn_ids = set(db.scalars(sa.select(t.id).where(*named)))
        facts = set(db.scalars(sa.select(ft.fact_id).where(ft.turn_id.in_(turn_ids))))
    else:
        query = sa.select(f.id).where(*own)
        facts = set(db.scalars(query if ids is None else query.where(f.id.in_(list(ids)))))
        turn_ids = set(db.scalars(sa.select(ft.turn_id).where(ft.fact_id.in_(facts))))
        if everything:
            turn_ids |= set(db.scalars(sa.select(t.id).where(*within(tables.turns, namespace))))
    # A fact that other turns tell, too, stays where only some of its turns are to go.
    kept_by = set(
        db.scalars(
            sa.select(ft.fact_id)
            .where(ft.fact_id.in_(facts), ft.turn_id.not_in(turn_ids))
            .distinct()
        )
    )
    doomed = _with_derived(db, facts - kept_by)
    turn_ids |= set(db.scalars(sa.select(ft.turn_id).where(ft.fact_id.in_(doomed - facts))))
    rows = list(db.execute(sa.select(tables.turns).where(t.id.in_(turn_ids))))
    texts = {text for row in rows for text in (row.question, row.answer) if text}
    texts |= {
        text
        for row in db.execute(sa.select(f.question, f.answer).where(f.id.in_(doomed)))
        for text in row
        if text
    }
    touched = set(
        db.scalars(
            sa.select(fe.entity_id).where(fe.fact_id.in_(doomed | kept_by))
        )
    )  # fmt: skip
    db.execute(tables.lineage.delete().where(tables.lineage.c.source_id.in_(doomed)))
    s = tables.statements.c
    # What a forgotten fact had closed is open again: nothing is left that says otherwise.
    reopened = {"valid_to": None, "closed_by": None}
    db.execute(tables.statements.update().where(s.closed_by.in_(doomed)).values(**reopened))
    db.execute(tables.facts.delete().where(f.id.in_(doomed)))  # their links go with them
    db.execute(tables.entity_relations.delete().where(r.turn_id.in_(turn_ids)))
    db.execute(tables.turns.delete().where(t.id.in_(turn_ids)))
    _reword(db, kept_by, texts)
    named_still = set(db.scalars(sa.select(fe.entity_id).where(fe.entity_id.in_(touched))))
    db.execute(tables.entities.delete().where(e.id.in_(touched - named_still)))
    if everything:
        db.execute(tables.entities.delete().where(*within(tables.entities, namespace)))
    bump(db, namespace)
    own_threads = sa.select(t.thread_id).where(*within(tables.turns, namespace)).distinct()
    left = set(db.scalars(own_threads))
    return Erased(
        tuple(sorted(doomed)), tuple(sorted(texts, key=len, reverse=True)),
        tuple(dict.fromkeys(row.thread_id for row in rows if row.thread_id not in left)),
        tuple(dict.fromkeys(row.thread_id for row in rows)),
        tuple((row.episode_id, row.step) for row in rows),
        tuple(dict.fromkeys(row.speaker for row in rows if row.speaker)),
        tuple(dict.fromkeys(row.about for row in rows if row.about)),
    )  # fmt: skip


def _with_derived(db: sa.Connection, facts: set[int]) -> set[int]:
    """Return the facts and all that were made from them, however far down."""
    c = tables.lineage.c
    doomed, new = set(facts), set(facts)
    while new:
        found = set(db.scalars(sa.select(c.fact_id).where(c.source_id.in_(new))))
        new = found - doomed
        doomed |= new
    return doomed


def _reword(db: sa.Connection, facts: set[int], gone: set[str]) -> None:
    """Give a fact that stays the words of a turn that stays, where its own were a forgotten turn's.

    Its vectors were those of the forgotten words: it is found by its words until it is edited.
    """
    t, f, ft = tables.turns.c, tables.facts.c, tables.fact_turns.c
    for row in list(db.execute(sa.select(f.id, f.question, f.answer).where(f.id.in_(facts)))):
        left = db.execute(
            sa.select(t.question, t.answer)
            .select_from(tables.turns.join(tables.fact_turns, t.id == ft.turn_id))
            .where(ft.fact_id == row.id)
            .order_by(t.at)
        ).first()
        if left is not None and (row.question in gone or row.answer in gone):
            values = {
                "question": left.question,
                "answer": left.answer,
                "vector": b"",
                "dimension": 0,
            }
            db.execute(tables.facts.update().where(f.id == row.id).values(**values))
