"""Erasing from a memory: facts with their turns, what they state, and what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from stategate.stores.home import thread_of
from stategate.stores.memory import schema as tables
from stategate.stores.memory.facts import reopen_statements, standalone_question
from stategate.stores.memory.records import Namespace
from stategate.stores.memory.schema import among, drop_epoch, raise_epoch, within


@dataclass(frozen=True)
class Erased:
    """What went: facts by number, the texts that they held, and the episodes and threads they were of.

    ``speakers`` and ``abouts`` are what stood in front of the texts where they were embedded.
    ``reworded`` are facts that stay, in the words (question, answer) of another turn, and have no
    vectors as yet.
    """

    facts: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    turns: tuple[tuple[str, int], ...] = ()
    speakers: tuple[str, ...] = ()
    abouts: tuple[str, ...] = ()
    reworded: tuple[tuple[int, str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.facts or self.turns)


def erase_facts(
    db: sa.Connection,
    namespace: Namespace,
    ids: Sequence[int] | None,
    thread: str | None,
    source: str | None,
) -> Erased:
    """Delete facts and all that hangs on them; everything of the namespace where nothing is named.

    A thread or source is forgotten by its turns: a fact that other turns tell, too, stays with those.
    A thread is named as its user names it, or as the checkpoints do (``home.thread_of``).
    """
    t, f, ft = tables.turns.c, tables.facts.c, tables.fact_turns.c
    facts: set[int] = set()
    turns: set[int] = set()
    if thread is None and source is None:
        named = [] if ids is None else [among(f.id, ids)]
        facts = set(db.scalars(sa.select(f.id).where(*within(tables.facts, namespace), *named)))
        turns = set(db.scalars(sa.select(ft.turn_id).where(among(ft.fact_id, facts))))
    if ids is None:
        names = {thread, thread_of(namespace.user, thread)} if thread is not None else set()
        of: list[sa.ColumnElement[bool]] = [] if thread is None else [t.thread_id.in_(names)]
        of += [] if source is None else [t.source == source]
        turns |= set(db.scalars(sa.select(t.id).where(*within(tables.turns, namespace), *of)))
    doomed = _spread(db, facts, turns)
    touched = set(db.scalars(sa.select(ft.fact_id).where(among(ft.turn_id, turns))))
    rows = list(db.execute(sa.select(tables.turns).where(among(t.id, turns))))
    words = db.execute(sa.select(f.question, f.answer).where(among(f.id, doomed)))
    said = [*((row.question, row.answer) for row in rows), *words]
    texts = {text for pair in said for text in pair if text}
    lineage = tables.turn_lineage
    db.execute(lineage.delete().where(among(lineage.c.source_id, doomed)))
    db.execute(tables.facts.delete().where(among(f.id, doomed)))  # their links go with them
    db.execute(tables.turns.delete().where(among(t.id, turns)))
    reopen_statements(db, namespace)
    reworded = _reword(db, touched - doomed, texts)
    raise_epoch(db, namespace)
    if ids is None and thread is None and source is None:
        drop_epoch(db, namespace)
    return Erased(
        tuple(sorted(doomed)),
        tuple(sorted(texts, key=len, reverse=True)),
        tuple(dict.fromkeys(row.thread_id for row in rows)),
        tuple((row.episode_id, row.step) for row in rows),
        tuple(dict.fromkeys(row.speaker for row in rows if row.speaker)),
        tuple(dict.fromkeys(row.about for row in rows if row.about)),
        tuple(reworded),
    )


def _spread(db: sa.Connection, named: set[int], turns: set[int]) -> set[int]:
    """Return the facts that go: ``named``, those without another turn, and what was made from them.

    Adds to ``turns`` what was made from a doomed fact, and the turns of doomed facts.
    """
    ft, tl = tables.fact_turns.c, tables.turn_lineage.c
    doomed: set[int] = set()
    while True:
        touched = set(db.scalars(sa.select(ft.fact_id).where(among(ft.turn_id, turns))))
        alive = sa.select(ft.fact_id).where(among(ft.fact_id, touched), ~among(ft.turn_id, turns))
        new = (named | touched - set(db.scalars(alive))) - doomed
        if not new:
            return doomed
        doomed |= new
        turns |= set(db.scalars(sa.select(ft.turn_id).where(among(ft.fact_id, new))))
        turns |= set(db.scalars(sa.select(tl.turn_id).where(among(tl.source_id, new))))


def _reword(db: sa.Connection, facts: set[int], gone: set[str]) -> list[tuple[int, str, str]]:
    """Make each fact what the turns that stay tell: how often, how far trusted, in whose words.

    Returns those whose own words were a forgotten turn's. Their vectors were of these words: they are
    found by words until they are embedded again (``LongTerm.embed_again``).
    """
    t, f, ft = tables.turns.c, tables.facts.c, tables.fact_turns.c
    joined = tables.turns.join(tables.fact_turns, t.id == ft.turn_id)
    reworded = []
    for row in list(db.execute(sa.select(tables.facts).where(among(f.id, facts)).order_by(f.id))):
        query = sa.select(tables.turns).select_from(joined).where(ft.fact_id == row.id)
        left = list(db.execute(query.order_by(t.at, t.id)))
        first = left[0]
        values = {
            "times": len(left),
            "trust": min(turn.trust for turn in left),
            "source": first.source,
            "speaker": first.speaker,
            "created": first.at,
            "updated": left[-1].at,
        }
        if row.question in gone or row.answer in gone:
            question, answer = standalone_question(first), first.answer
            values |= {"question": question, "answer": answer, "vector": b"", "dimension": 0}
            reworded.append((int(row.id), question, answer))
        db.execute(tables.facts.update().where(f.id == row.id).values(**values))
    return reworded
