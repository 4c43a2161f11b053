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
    """A fact that went: its number, its words, and where it was told.

    ``speaker`` and ``about`` are what stood in front of the words where they were embedded.
    """

    fact: int
    text: str
    thread_id: str
    episode_id: str
    step: int
    speaker: str
    about: str


def erase_facts(
    db: sa.Connection,
    namespace: Namespace,
    ids: Sequence[int] | None,
    thread: str | None,
    source: str | None,
) -> list[Erased]:
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
    rows = db.execute(sa.select(*columns).where(*own, *named).order_by(f.id))
    erased = [Erased(*row) for row in rows]
    # Their statements go with them.
    db.execute(tables.facts.delete().where(among(f.id, [one.fact for one in erased])))
    reopen_statements(db, namespace)
    return erased
