"""Long-term memory: facts that outlive a conversation, in SQL.

SQLite (in WAL) by default, PostgreSQL by URL. Everything belongs to a namespace (user, agent). One
turn is one transaction, keyed by (episode, step): written once or not at all, however often tried.
"""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json, write_lines
from stategate.stores.home import home
from stategate.stores.memory import schema as tables
from stategate.stores.memory.facts import as_facts, least_worth, trust_in, write_fact
from stategate.stores.memory.forget import Erased, erase_facts
from stategate.stores.memory.gate import why_not
from stategate.stores.memory.recall import DEFAULT, Asked, Limits, Weights, recalled
from stategate.stores.memory.records import Candidate, Fact, Namespace, Turn, Vector, Written
from stategate.stores.memory.schema import MEMORY, bump, key_of, within
from stategate.stores.memory.search import NamespaceIndex, packed
from stategate.stores.memory.stated import stated
from stategate.stores.memory.statements import write_statements
from stategate.stores.sql import Database, is_database

#: Namespaces whose search index stays in memory, the last used ones.
_INDEXES = 16
_SHARE = 20  # of a full memory that makes room at once
Embed = Callable[[Sequence[str]], Vector]
_Share = Annotated[float, Field(ge=0, le=1)]


class ExportedTurn(BaseModel):
    """One line of an exported memory: a turn, and what its fact says."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    thread_id: str
    episode_id: str
    step: int = Field(ge=0, lt=1 << 31)
    question: str
    answer: str
    at: float = Field(gt=-6e10, lt=2.5e11)
    about: str = ""
    speaker: str = ""
    source: str = "user"
    trust: _Share | None = None
    salience: _Share = 0.5
    success: bool = True


class LongTerm:
    """One memory: a SQLite file or a PostgreSQL database (see ``stores.sql``).

    Safe for threads and processes. Every method raises ``UserError`` where the database is unusable.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        place = url.removeprefix("sqlite:///")
        if "://" in place and not is_database(place):
            raise UserError("long-term memory is a file or a sqlite:/// or postgresql:// URL")
        self._db = Database(place, MEMORY)
        self._indexes: OrderedDict[Namespace, NamespaceIndex] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def file(self) -> Path | None:
        """The database's file, None for PostgreSQL."""
        return self._db.file

    @contextmanager
    def transaction(
        self, namespace: Namespace | None, writes: bool = True
    ) -> Iterator[sa.Connection]:
        """Yield a connection in one transaction; writers of a namespace take turns.

        Two sessions that write the same fact at once would otherwise both find none to merge with.
        """
        turn = "" if namespace is None else f"{namespace.user}/{namespace.agent}"
        with self._db.damage(), self._db.write(turn) if writes else self._db.read() as db:
            yield db

    def write(self, namespace: Namespace, turn: Turn) -> int | None:
        """Keep ``turn`` and return its fact's id, None if the turn was written before."""
        written = self.add(namespace, turn)
        return None if written.outcome == "repeated" else written.fact

    def add(
        self, namespace: Namespace, turn: Turn, *, gated: bool = False, most: int | None = None
    ) -> Written:
        """Keep ``turn`` and say what became of it; ``gated`` refuses small talk (see ``gate``).

        A namespace has at most ``most`` facts (None: any number): a twentieth goes at once, what is
        missed least (``facts.least_worth``), with all that hangs on it.
        """
        if gated and (reason := why_not(turn)):
            return Written("refused", reason=reason)
        now = time.time() if turn.at is None else turn.at
        with self._lock, self.transaction(namespace) as db:
            t = tables.turns.c
            same = (t.episode_id == turn.episode_id, t.step == turn.step)
            query = sa.select(t.id).where(*within(tables.turns, namespace), *same)
            if db.scalar(query) is not None:
                return Written("repeated", reason="this turn was written before")
            index = self._index(db, namespace)
            fact_id, is_merged = write_fact(db, namespace, index, turn, now)
            trust = trust_in(db, turn)
            inserted = db.execute(
                tables.turns.insert().values(
                    **vars(namespace),
                    thread_id=turn.thread_id,
                    episode_id=turn.episode_id,
                    step=turn.step,
                    question=turn.question,
                    answer=turn.answer,
                    about=turn.about,
                    at=now,
                    speaker=turn.speaker,
                    source=turn.source,
                    trust=trust,
                )
            )
            turn_id = key_of(inserted)
            db.execute(tables.fact_turns.insert().values(fact_id=fact_id, turn_id=turn_id))
            sources = dict.fromkeys(turn.lineage)
            if sources:
                rows = [{"turn_id": turn_id, "source_id": source} for source in sources]
                db.execute(tables.turn_lineage.insert(), rows)
            closed = write_statements(db, namespace, turn, fact_id, turn_id, now)
            is_full = most is not None and not is_merged and index.alive >= most
            dropped = self._make_room(db, namespace, index, fact_id, most or 0) if is_full else ()
        outcome = "merged" if is_merged else "stored"
        return Written(outcome, fact_id, "", tuple(closed), dropped)

    def _make_room(
        self,
        db: sa.Connection,
        namespace: Namespace,
        index: NamespaceIndex,
        fact_id: int,
        most: int,
    ) -> tuple[int, ...]:
        self._indexes.pop(namespace)  # not the database's until all of this is in it
        ids = least_worth(db, namespace, fact_id, index.alive + 1 - most + most // _SHARE)
        dropped = erase_facts(db, namespace, ids, None, None).facts
        e = tables.epochs.c
        epoch = db.scalar(sa.select(e.epoch).where(*within(tables.epochs, namespace))) or 0
        index.refresh(db, namespace, is_whole=False)
        index.drop(dropped, epoch)
        self._indexes[namespace] = index
        return dropped

    def now(self, namespace: Namespace, thread_id: str) -> float:
        """Return the time (Unix), later than the thread's last turn: a clock may have gone back."""
        t = tables.turns.c
        query = sa.select(sa.func.max(t.at)).where(*within(tables.turns, namespace))
        with self.transaction(namespace, writes=False) as db:
            last = db.scalar(query.where(t.thread_id == thread_id))
        return max(time.time(), (last or 0.0) + 0.001)

    def search(
        self,
        namespace: Namespace,
        vector: Vector | None,
        embedder: str,
        k: int = 5,
        min_salience: float = 0.0,
        words: str = "",
        as_of: float | None = None,
    ) -> list[Fact]:
        """Return up to ``k`` facts by relevance to ``vector`` and ``words``; see :meth:`recall`.

        A fact whose salience, as it was written, is under ``min_salience`` is not read, nor one that
        has nothing in common with what was asked. Without ``vector`` and ``words``: the newest.
        """
        if vector is None and not words:
            facts = [fact for fact in self.facts(namespace) if fact.salience >= min_salience]
            facts.sort(key=lambda fact: (-fact.updated, -fact.id))
            return [replace(fact, score=fact.updated) for fact in facts[:k]]
        asked = Asked(words, vector, embedder, as_of=as_of)
        limits = Limits(facts=k, min_salience=min_salience)
        return self.recall(namespace, asked, limits)[0]

    def recall(
        self,
        namespace: Namespace,
        asked: Asked,
        limits: Limits | None = None,
        weights: Weights = DEFAULT,
    ) -> tuple[list[Fact], list[Candidate]]:
        """Return the facts that answer best, best first, and all candidates with their reasons."""
        with self._lock, self.transaction(namespace, writes=False) as db:
            index = self._index(db, namespace)
            return recalled(db, index, asked, limits or Limits(), weights)

    def _index(self, db: sa.Connection, namespace: Namespace) -> NamespaceIndex:
        """Return the namespace's index, as new as the transaction."""
        index = self._indexes.setdefault(namespace, NamespaceIndex())
        self._indexes.move_to_end(namespace)
        while len(self._indexes) > _INDEXES:
            self._indexes.popitem(last=False)
        index.refresh(db, namespace)
        return index

    def facts(self, namespace: Namespace) -> list[Fact]:
        """Return every fact, oldest first."""
        query = sa.select(tables.facts).where(*within(tables.facts, namespace))
        with self.transaction(namespace, writes=False) as db:
            return as_facts(db, list(db.execute(query.order_by(tables.facts.c.id))))

    def turns(self, namespace: Namespace) -> list[dict[str, Any]]:
        """Return every turn with its fact's salience and success, oldest first."""
        t, f = tables.turns.c, tables.facts.c
        joined = tables.turns.join(tables.fact_turns, t.id == tables.fact_turns.c.turn_id).join(
            tables.facts, f.id == tables.fact_turns.c.fact_id
        )
        columns = (
            t.thread_id,
            t.episode_id,
            t.step,
            t.question,
            t.answer,
            t.about,
            t.at,
            t.speaker,
            t.source,
            t.trust,
        )
        query = sa.select(*columns, f.salience, f.success).select_from(joined)
        query = query.where(*within(tables.turns, namespace)).order_by(t.at, t.id)
        with self.transaction(namespace, writes=False) as db:
            return [dict(row._mapping) for row in db.execute(query)]

    def threads(self) -> set[str]:
        """Return every thread, of any user, of which a turn is remembered."""
        with self.transaction(None, writes=False) as db:
            return set(db.scalars(sa.select(tables.turns.c.thread_id).distinct()))

    def timeline(self, namespace: Namespace) -> list[dict[str, Any]]:
        """Return every state, denial, and what was denied: of whom, what, from when to when."""
        s, f = tables.statements.c, tables.facts.c
        columns = (
            s.subject,
            s.relation,
            s.value,
            s.negated,
            s.valid_from,
            s.valid_to,
            s.closed_by,
            s.fact_id,
            f.trust,
        )
        joined = tables.statements.join(tables.facts, f.id == s.fact_id)
        query = (
            sa.select(*columns)
            .select_from(joined)
            .where(
                *within(tables.statements, namespace),
                sa.or_(s.is_state, s.negated, s.closed_by.is_not(None)),
            )
        )
        with self.transaction(namespace, writes=False) as db:
            rows = db.execute(query.order_by(s.subject, s.relation, s.valid_from, s.id))
            return [dict(row._mapping) for row in rows]

    def namespaces(self) -> list[Namespace]:
        """Return every user and agent of whom facts are remembered."""
        f = tables.facts.c
        with self.transaction(None, writes=False) as db:
            pairs = db.execute(sa.select(f.user, f.agent).distinct().order_by(f.user, f.agent))
            return [Namespace(*row) for row in pairs]

    def forget(
        self,
        namespace: Namespace,
        ids: Sequence[int] | None = None,
        *,
        thread: str | None = None,
        source: str | None = None,
    ) -> int:
        """Delete facts by number, thread or source, all of the namespace where none is named.

        With them go their turns and what was derived from them.
        Returns how many facts went. The texts are nowhere in here afterwards, free pages included.
        """
        return len(self.erase(namespace, ids, thread=thread, source=source).facts)

    def erase(
        self,
        namespace: Namespace,
        ids: Sequence[int] | None = None,
        *,
        thread: str | None = None,
        source: str | None = None,
    ) -> Erased:
        """Do the same and return what went, so that other stores can be cleared of it."""
        with self._lock:
            with self.transaction(namespace) as db:
                erased = erase_facts(db, namespace, ids, thread, source)
            # Also where nothing is left to erase: a kill may have come before the file was tidied.
            self._db.compact()
        return erased

    def embed_again(
        self, namespace: Namespace, erased: Erased, embed: Embed, embedder: str
    ) -> None:
        """Give facts that were reworded (see :meth:`erase`) vectors of their words."""
        for fact, *halves in erased.reworded:
            rows = np.asarray(embed([half for half in halves if half]), np.float32)
            with self.transaction(namespace) as db:
                _change(db, namespace, fact, rows, embedder=embedder)

    def erase_items(self, texts: Sequence[str], user: str | None = None) -> int:
        """Delete other graphs' items that hold one of ``texts``, or that are of ``user``."""
        i, gone = tables.items.c, 0
        escaped = [json.dumps(text)[1:-1] for text in texts]
        with self.transaction(Namespace("items", "items")) as db:
            for text in dict.fromkeys([*texts, *escaped]):
                held = i.value.contains(text, autoescape=True)
                gone += db.execute(tables.items.delete().where(held)).rowcount
            if user is not None:
                for row in db.execute(sa.select(i.namespace).distinct()).all():
                    if user in row.namespace.split("."):
                        own = i.namespace == row.namespace
                        gone += db.execute(tables.items.delete().where(own)).rowcount
        return gone

    def exports(self, namespace: Namespace | None) -> list[str]:
        """Return the files that turns were exported to, of everybody where no namespace is named."""
        query = sa.select(tables.exports.c.path).distinct()
        if namespace is not None:
            query = query.where(*within(tables.exports, namespace))
        with self.transaction(namespace, writes=False) as db:
            return list(db.scalars(query))

    def edit(
        self,
        namespace: Namespace,
        fact: int,
        *,
        question: str,
        answer: str,
        salience: float,
        embed: Embed,
        embedder: str,
    ) -> None:
        """Correct fact number ``fact`` by hand; it is found by the new words.

        Where it came from stays: its turns are not rewritten. Raises ``UserError`` for an unknown
        fact, empty words, or a salience that is no share.
        """
        question, answer = question.strip(), answer.strip()
        if not question:
            raise UserError("a fact needs words: forget it instead")
        if not 0 <= salience <= 1:
            raise UserError(f"salience is a share from 0 to 1, not {salience}")
        rows = np.asarray(embed([half for half in (question, answer) if half]), np.float32)
        f = tables.facts.c
        with self.transaction(namespace) as db:
            if not answer and db.scalar(sa.select(f.answer).where(f.id == fact)):
                raise UserError("a fact needs a question and an answer: forget it instead")
            words = {"question": question, "answer": answer, "salience": salience}
            now = time.time()
            if not _change(
                db, namespace, fact, rows, **words, success=True, updated=now, embedder=embedder
            ):
                raise UserError(f"no fact {fact} in this memory: it may have been forgotten")

    def export_turns(self, namespace: Namespace, target: Path) -> int:
        """Write every turn to JSON lines with what its fact says, oldest first; returns how many."""
        count = write_lines(target, self.turns(namespace))
        row = {**vars(namespace), "path": str(target.resolve()), "at": time.time()}
        with self.transaction(namespace) as db:
            db.execute(tables.exports.insert().values(**row))
        return count

    def import_turns(self, namespace: Namespace, source: Path, embed: Embed, embedder: str) -> int:
        """Write the turns of a file, embedded anew.

        Returns how many were not there yet. Raises ``UserError`` naming the line that is wrong,
        before anything is written.
        """
        with user_error_context(f"cannot read '{source}'", "name a file of `memory export`"):
            lines = source.read_text(encoding="utf-8").split("\n")
        rows = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                with user_error_context(
                    f"'{source}' line {number} is no turn", "see memory export"
                ):
                    rows.append(ExportedTurn.model_validate(parse_json(line)))
        asked = [f"{row.about} {row.question}".strip() for row in rows]
        halves = {half for row in rows for half in (row.answer,) if half} | {*asked}
        texts = sorted(halves)
        of = dict(zip(texts, embed(texts), strict=True)) if texts else {}
        written = 0
        for row, text in zip(rows, asked, strict=True):
            turn = Turn(
                **row.model_dump(),
                vector=of[text],
                answer_vector=of.get(row.answer),
                embedder=embedder,
                statements=tuple(stated(text, row.speaker, row.at)),
            )
            written += self.write(namespace, turn) is not None
        return written


def open_long_term(url: str | None = None) -> LongTerm:
    """Return the memory at ``url``, a file name or nothing for this machine's own; opened once."""
    if url is None:
        return _opened(str(home() / "long_term.sqlite"))
    return _opened(url if "://" in url else str(Path(url).expanduser()))


@lru_cache(maxsize=16)
def _opened(url: str) -> LongTerm:
    return LongTerm(url)


def _change(db: sa.Connection, namespace: Namespace, fact: int, rows: Vector, **values: Any) -> int:
    """Change a fact, whose words have the vectors ``rows`` now; returns how many facts these were."""
    f = tables.facts.c
    here = (f.id == fact, f.user == namespace.user, f.agent == namespace.agent)
    values |= {"vector": packed(list(rows)), "dimension": rows.shape[1]}
    changed = db.execute(tables.facts.update().where(*here).values(**values))
    bump(db, namespace)
    return changed.rowcount
