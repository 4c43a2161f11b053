"""Erasing from a memory: facts with their turns, what they state and name, and what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from stategate.stores.memory import schema as tables
from stategate.stores.memory.facts import told
from stategate.stores.memory.records import Namespace
from stategate.stores.memory.schema import among, bump, within
from stategate.stores.memory.statements import close_again, reopen


@dataclass(frozen=True)
class Erased:
    """What went: facts by number, the texts that they held, and the episodes and threads they were of.

    ``threads`` are those of whose turns nothing is left, ``touched`` all that lost one. ``speakers``
    and ``abouts`` are what stood in front of the texts where they were embedded. ``reworded`` are facts
    that stay, in the words (question, answer) of another turn, and have no vectors as yet.
    """

    facts: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
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
    """Delete facts and all that hangs on them; everything of the namespace where nothing is named."""
    t, f, ft = tables.turns.c, tables.facts.c, tables.fact_turns.c
    own = within(tables.facts, namespace)
    everything = ids is None and thread is None and source is None
    if thread is not None or source is not None:
        named = [*within(tables.turns, namespace)]
        named += [t.thread_id == thread] if thread is not None else []
        named += [t.source == source] if source is not None else []
        turn_ids = set(db.scalars(sa.select(t.id).where(*named)))
        facts = set(db.scalars(sa.select(ft.fact_id).where(among(ft.turn_id, turn_ids))))
    else:
        query = sa.select(f.id).where(*own)
        facts = set(db.scalars(query if ids is None else query.where(among(f.id, ids))))
        turn_ids = set(db.scalars(sa.select(ft.turn_id).where(among(ft.fact_id, facts))))
        if everything:
            turn_ids |= set(db.scalars(sa.select(t.id).where(*within(tables.turns, namespace))))
    doomed = _spread(db, set() if thread is not None or source is not None else facts, turn_ids)
    facts |= doomed
    # A fact that other turns tell, too, stays with those.
    facts |= set(db.scalars(sa.select(ft.fact_id).where(among(ft.turn_id, turn_ids))))
    kept = facts - doomed
    rows = list(db.execute(sa.select(tables.turns).where(among(t.id, turn_ids))))
    texts = {text for row in rows for text in (row.question, row.answer) if text}
    texts |= {
        text
        for row in db.execute(sa.select(f.question, f.answer).where(among(f.id, doomed)))
        for text in row
        if text
    }
    reopened = reopen(db, doomed, turn_ids)
    db.execute(tables.turn_lineage.delete().where(among(tables.turn_lineage.c.source_id, doomed)))
    db.execute(tables.facts.delete().where(among(f.id, doomed)))  # their links go with them
    db.execute(tables.turns.delete().where(among(t.id, turn_ids)))
    close_again(db, namespace, reopened)
    reworded = _retold(db, kept, texts)
    bump(db, namespace)
    own_threads = sa.select(t.thread_id).where(*within(tables.turns, namespace)).distinct()
    left = set(db.scalars(own_threads))
    return Erased(
        tuple(sorted(doomed)),
        tuple(sorted(texts, key=len, reverse=True)),
        tuple(dict.fromkeys(row.thread_id for row in rows if row.thread_id not in left)),
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


def _retold(db: sa.Connection, facts: set[int], gone: set[str]) -> list[tuple[int, str, str]]:
    """Make each fact what the turns that stay tell: how often, how far trusted, in whose words.

    Returns those whose own words were a forgotten turn's. Their vectors were of these words: they are
    found by words until they are embedded again (``LongTerm.embed_again``).
    """
    t, f, ft = tables.turns.c, tables.facts.c, tables.fact_turns.c
    reworded = []
    for row in list(db.execute(sa.select(tables.facts).where(among(f.id, facts)).order_by(f.id))):
        left = list(
            db.execute(
                sa.select(tables.turns)
                .select_from(tables.turns.join(tables.fact_turns, t.id == ft.turn_id))
                .where(ft.fact_id == row.id)
                .order_by(t.at, t.id)
            )
        )
        if not left:
            continue
        values: dict[str, Any] = {
            "times": len(left),
            "trust": min(turn.trust for turn in left),
            "source": left[0].source,
            "speaker": left[0].speaker,
            "created": left[0].at,
            "updated": left[-1].at,
        }
        if row.question in gone or row.answer in gone:
            question, answer = told(left[0]), left[0].answer
            values |= {"question": question, "answer": answer, "vector": b"", "dimension": 0}
            reworded.append((int(row.id), question, answer))
        db.execute(tables.facts.update().where(f.id == row.id).values(**values))
    return reworded
