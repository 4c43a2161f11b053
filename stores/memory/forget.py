"""Erasing from a memory: facts, what they state, and what these statements had closed."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from stategate.stores.home import thread_of
from stategate.stores.memory import schema as tables
from stategate.stores.memory.facts import reopen_statements
from stategate.stores.memory.records import Namespace
from stategate.stores.memory.schema import among, within


@dataclass(frozen=True)
class Erased:
    """What went: facts by number, the texts that they held, and the episodes and threads they were of.

    ``speakers`` and ``abouts`` are what stood in front of the texts where they were embedded.
    """

    facts: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    turns: tuple[tuple[str, int], ...] = ()
    speakers: tuple[str, ...] = ()
    abouts: tuple[str, ...] = ()


def erase_facts(
    db: sa.Connection,
    namespace: Namespace,
    ids: Sequence[int] | None,
    thread: str | None,
    source: str | None,
) -> Erased:
    """Delete facts and all that hangs on them; everything of the namespace where nothing is named.

    A fact that is named by its number goes wherever it was told in the same words. A thread is named as
    its user names it, or as the checkpoints do (``home.thread_of``).
    """
    f, own = tables.facts.c, within(tables.facts, namespace)
    named: list[sa.ColumnElement[bool]] = []
    if ids is not None:
        named.append(f.text.in_(sa.select(f.text).where(*own, among(f.id, ids))))
    if thread is not None:
        named.append(f.thread_id.in_({thread, thread_of(namespace.user, thread)}))
    if source is not None:
        named.append(f.source == source)
    columns = (f.id, f.text, f.thread_id, f.episode_id, f.step, f.speaker, f.about)
    rows = list(db.execute(sa.select(*columns).where(*own, *named).order_by(f.id)))
    facts = tuple(row.id for row in rows)
    db.execute(tables.facts.delete().where(among(f.id, facts)))  # their statements go with them
    reopen_statements(db, namespace)
    texts = {row.text for row in rows if row.text}
    return Erased(
        facts,
        tuple(sorted(texts, key=len, reverse=True)),
        tuple(dict.fromkeys(row.thread_id for row in rows)),
        tuple((row.episode_id, row.step) for row in rows),
        tuple(dict.fromkeys(row.speaker for row in rows if row.speaker)),
        tuple(dict.fromkeys(row.about for row in rows if row.about)),
    )
