"""Long-term memory: facts that outlive a conversation, in SQL.

SQLite (in WAL) by default, PostgreSQL by URL. Everything belongs to a user. One
turn is one transaction, keyed by (episode, step): written once or not at all, however often tried.
"""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import sqlalchemy as sa

from stategate.language.utterance import content_of, read_utterance
from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.stores.memory import schema as tables
from stategate.stores.memory.facts import Erased, end_fact, erase_facts, read_facts, write_turn
from stategate.stores.memory.index import UserIndex
from stategate.stores.memory.recall import Asked, Limits, corrected_fact, matching_facts, recalled
from stategate.stores.memory.records import TRUSTED, Fact, Turn, Written
from stategate.stores.memory.schema import MEMORY, among
from stategate.stores.memory.statements import refusal_of
from stategate.stores.sql import Database, is_database

_NEAR = 8  # facts that a new one may end
#: Namespaces whose search index stays in memory, the last used ones.
_INDEXES = 16


class LongTerm:
    """One memory: a SQLite file or a PostgreSQL database (see ``stores.sql``).

    Safe for threads and processes. Every method raises ``UserError`` where the database is unusable.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        place = url.removeprefix("sqlite:///")
        if "://" in place and not is_database(place):
            raise UserError("long-term memory is a file or a sqlite:/// or postgresql:// URL")
        #: Writers of one user take turns: each could otherwise miss the state that the other closes.
        self.db = Database(place, MEMORY)
        self._index_of = lru_cache(maxsize=_INDEXES)(lambda user: UserIndex())
        self._lock = threading.RLock()

    def add(self, user: str, turn: Turn, *, gated: bool = False) -> Written:
        """Keep ``turn`` and say what became of it; ``gated`` refuses small talk (``extraction``)."""
        if gated and (reason := refusal_of(turn)):
            return Written("refused", reason=reason)
        now = time.time() if turn.at is None else turn.at
        with self._lock, self.db.write(user) as db:
            index = self._index(db, user)
            near = index.near(turn, _NEAR) if turn.statements else []
            written = write_turn(db, user, turn, now, near)
            if written.fact is None or turn.source != "user":
                return written
            if read_utterance(turn.text).purpose != "correction":
                return written
            ended = read_facts(db, among(tables.facts.c.id, written.closed))
            if any(fact.source == "user" for fact in ended):
                return written
            words = " ".join(content_of(turn.text))
            asked = Asked(words, turn.vector, turn.embedder, at=now)
            corrected = corrected_fact(db, user, index, asked, turn)
            if corrected is None:
                return written if ended else replace(written, reason="nothing was found to correct")
            end_fact(db, user, corrected, written.fact, now)
        return replace(written, closed=(*written.closed, corrected))

    def recall(self, user: str, asked: Asked, limits: Limits | None = None) -> list[Fact]:
        """Return the facts that may answer, best first; ``left_out`` says why one is not shown."""
        with self._lock, self.db.read() as db:
            return recalled(db, self._index(db, user), asked, limits or Limits())

    def matching(self, user: str, asked: Asked) -> list[Fact]:
        """Return the facts that a text speaks of (see ``recall.matching_facts``), best first."""
        with self._lock, self.db.read() as db:
            return matching_facts(db, self._index(db, user), asked)

    def _index(self, db: sa.Connection, user: str) -> UserIndex:
        """Return the user's index, as new as the transaction."""
        index = self._index_of(user)
        index.refresh(db, user)
        return index

    def facts(self, user: str, episode: str | None = None) -> list[Fact]:
        """Return every fact, or those that ``episode`` told, oldest first."""
        of = [tables.facts.c.user == user]
        if episode is not None:
            of.append(tables.facts.c.episode_id == episode)
        with self.db.read() as db:
            return read_facts(db, *of)

    def ended_by(self, fact: int) -> list[tuple[int, str]]:
        """Return the statements that a fact was the first to end, each with the number of its fact."""
        s, e, other = tables.statements.c, tables.endings.c, tables.endings.alias().c
        ended = tables.endings.join(tables.statements, s.id == e.statement_id)
        is_earlier = sa.tuple_(other.at, other.id) < sa.tuple_(e.at, e.id)
        earlier = sa.exists().where(other.statement_id == e.statement_id, is_earlier)
        query = sa.select(s.fact_id, s.text).select_from(ended).where(e.fact_id == fact, ~earlier)
        with self.db.read() as db:
            return [(row.fact_id, row.text) for row in db.execute(query.order_by(s.id))]

    def wishes(self, user: str) -> list[Fact]:
        """Return the user's standing wishes that hold, the newest first, each as its passage.

        What a tool, a document or the agent says is no wish of the user's.
        """
        s, f, e = tables.statements.c, tables.facts.c, tables.endings.c
        is_ended = sa.exists(sa.select(e.id).where(e.statement_id == s.id))
        own = (tables.statements.c.user == user, s.is_wish, ~is_ended)
        query = sa.select(s.fact_id, s.text).where(*own).order_by(s.since.desc(), s.id.desc())
        with self.db.read() as db:
            rows = list(db.execute(query))
            trusted = (f.source == "user", f.trust >= TRUSTED)
            ids = [row.fact_id for row in rows]
            facts = {fact.id: fact for fact in read_facts(db, f.id.in_(ids), *trusted)}
        return [
            replace(facts[row.fact_id], passage=row.text) for row in rows if row.fact_id in facts
        ]

    def only_wishes(self, user: str) -> set[int]:
        """Return the numbers of the facts of ``wishes`` that state nothing else."""
        s = tables.statements.c
        plain = self.db.rows(sa.select(s.fact_id).where(s.user == user, ~s.is_wish))
        return {fact.id for fact in self.wishes(user)} - {row.fact_id for row in plain}

    def threads_apart(self, user: str, texts: Sequence[str]) -> set[str]:
        """Return the threads of other users, and those of ``user`` that told one of ``texts``."""
        f, told = tables.facts.c, set(texts)
        others = self.db.rows(sa.select(f.thread_id).where(f.user != user).distinct())
        own = self.db.rows(sa.select(f.thread_id, f.text).where(f.user == user))
        again = {row.thread_id for row in own if row.text in told}
        return again | {row.thread_id for row in others}

    def users(self) -> list[str]:
        """Return every user of whom facts are remembered."""
        column = tables.facts.c.user
        return [row.user for row in self.db.rows(sa.select(column).distinct().order_by(column))]

    def erase(
        self,
        user: str,
        ids: Sequence[int] | None = None,
        *,
        thread: str | None = None,
        source: str | None = None,
    ) -> Sequence[Erased]:
        """Delete facts by number, thread or source, all of the user where none is named.

        Returns what went, so that other stores can be cleared of it. The texts are nowhere in here
        afterwards, free pages included.
        """
        with self._lock:
            with self.db.write(user) as db:
                erased = erase_facts(db, user, ids, thread, source)
            # Also where nothing is left to erase: a kill may have come before the file was tidied.
            self.db.compact()
        return erased

    def erase_items(self, texts: Sequence[str], user: str | None = None) -> int:
        """Delete other graphs' items that hold one of ``texts``, or that are of ``user``."""
        i, gone = tables.items.c, 0
        escaped = [json.dumps(text)[1:-1] for text in texts]
        with self.db.write("items") as db:
            for text in dict.fromkeys([*texts, *escaped]):
                held = i.value.contains(text, autoescape=True)
                gone += db.execute(tables.items.delete().where(held)).rowcount
            if user is not None:
                for row in db.execute(sa.select(i.namespace).distinct()).all():
                    if user in row.namespace.split("."):
                        own = i.namespace == row.namespace
                        gone += db.execute(tables.items.delete().where(own)).rowcount
        return gone


def open_long_term(url: str | None = None) -> LongTerm:
    """Return the memory at ``url``, a file name or nothing for this machine's own; opened once."""
    return _opened(url or str(home() / "long_term.sqlite"))


@lru_cache(maxsize=16)
def _opened(url: str) -> LongTerm:
    return LongTerm(url)
