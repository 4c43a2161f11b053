"""Long-term memory: facts, entities and relations that outlive a conversation, in SQL.

SQLite (in WAL) by default, PostgreSQL by URL. Everything belongs to a namespace (user, agent). One
turn is one transaction, keyed by (episode, step): written once or not at all, however often tried.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from stores.errors import UserError
from stores.files import write_lines
from stores.home import home
from stores.memory import database as tables
from stores.memory.database import Database, key_of, within
from stores.memory.entities import Extractor
from stores.memory.facts import (
    TOP_SALIENCE,
    as_fact,
    decayed,
    similar_facts,
    whole_facts,
    write_fact,
)
from stores.memory.graph import read_graph, write_graph
from stores.memory.records import Entity, Fact, Namespace, Relation, Turn, Vector, tidy

Embed = Callable[[Sequence[str]], Vector]
_FIELDS = ("thread_id", "episode_id", "step", "question", "answer")


class LongTerm(Database):
    """One memory database. Safe for threads and processes; raises ``UserError`` if unusable."""

    def write(self, namespace: Namespace, turn: Turn) -> int | None:
        """Keep ``turn`` and return its fact's id, None if the turn was written before."""
        turn = tidy(turn)
        now = time.time() if turn.at is None else turn.at
        with self.transaction(namespace) as db:
            t = tables.turns.c
            same = (t.episode_id == turn.episode_id, t.step == turn.step)
            if (
                db.scalar(sa.select(t.id).where(*within(tables.turns, namespace), *same))
                is not None
            ):
                return None
            inserted = db.execute(
                tables.turns.insert().values(
                    **vars(namespace), thread_id=turn.thread_id, episode_id=turn.episode_id,
                    step=turn.step, question=turn.question, answer=turn.answer,
                    about=turn.about, at=now,
                )
            )  # fmt: skip
            turn_id = key_of(inserted)
            fact_id = write_fact(db, namespace, turn, now)
            db.execute(tables.fact_turns.insert().values(fact_id=fact_id, turn_id=turn_id))
            write_graph(db, namespace, turn, fact_id, turn_id, now)
        return fact_id

    def search(
        self,
        namespace: Namespace,
        vector: Vector | None,
        embedder: str,
        k: int = 5,
        min_salience: float = 0.3,
        now: float | None = None,
    ) -> list[Fact]:
        """Return up to ``k`` facts by relevance: cosine, weighed by salience after decay.

        A fact under ``min_salience`` by now is not read, nor one with nothing in common with what
        was asked. Without ``vector`` the newest come first.
        """
        moment = time.time() if now is None else now
        with self.transaction(namespace, writes=False) as db:
            rows, similar = similar_facts(db, namespace, vector, embedder)
            scored = []
            for row, cosine in zip(rows, similar, strict=True):
                left = decayed(row.salience, moment - row.updated)
                if left < min_salience or (vector is not None and cosine <= 0):
                    continue
                if vector is None:
                    score = row.updated
                else:
                    weight = 0.7 + 0.3 * left / TOP_SALIENCE
                    score = cosine * weight * (1.0 if row.success else 0.8)
                scored.append((score, row.id))
            best = {id_: float(score) for score, id_ in sorted(scored, reverse=True)[:k]}
            whole = {row.id: row for row in whole_facts(db, list(best))}
            return [as_fact(db, whole[id_], score) for id_, score in best.items()]

    def graph(
        self, namespace: Namespace, about: str, facts: Sequence[Fact], entities: int, relations: int
    ) -> tuple[list[Entity], list[Relation]]:
        """Return entities named in ``about`` or by ``facts``, and the relations that touch them."""
        with self.transaction(namespace, writes=False) as db:
            return read_graph(db, namespace, about, facts, entities, relations)

    def facts(self, namespace: Namespace) -> list[Fact]:
        """Return every fact, oldest first."""
        query = sa.select(tables.facts).where(*within(tables.facts, namespace))
        with self.transaction(namespace, writes=False) as db:
            return [as_fact(db, row) for row in db.execute(query.order_by(tables.facts.c.id))]

    def turns(self, namespace: Namespace) -> list[dict[str, Any]]:
        """Return every turn with its fact's salience and success, oldest first."""
        t, f = tables.turns.c, tables.facts.c
        joined = tables.turns.join(tables.fact_turns, t.id == tables.fact_turns.c.turn_id).join(
            tables.facts, f.id == tables.fact_turns.c.fact_id
        )
        columns = (t.thread_id, t.episode_id, t.step, t.question, t.answer, t.about, t.at)
        query = sa.select(*columns, f.salience, f.success).select_from(joined)
        query = query.where(*within(tables.turns, namespace)).order_by(t.at, t.id)
        with self.transaction(namespace, writes=False) as db:
            return [dict(row._mapping) for row in db.execute(query)]

    def namespaces(self) -> list[Namespace]:
        """Return every user and agent of whom facts are remembered."""
        f = tables.facts.c
        with self.transaction(None, writes=False) as db:
            pairs = db.execute(sa.select(f.user, f.agent).distinct().order_by(f.user, f.agent))
            return [Namespace(*row) for row in pairs]

    def forget(self, namespace: Namespace, ids: Sequence[int] | None = None) -> int:
        """Delete facts (all of the namespace without ``ids``), their turns, and entities left alone.

        Returns how many facts went. The turns' texts go too: what is forgotten is nowhere in here.
        """
        f, ft, r = tables.facts.c, tables.fact_turns.c, tables.entity_relations.c
        fe, e = tables.fact_entities.c, tables.entities.c
        query = sa.select(f.id).where(*within(tables.facts, namespace))
        with self.transaction(namespace) as db:
            doomed = list(db.scalars(query if ids is None else query.where(f.id.in_(list(ids)))))
            turns = list(db.scalars(sa.select(ft.turn_id).where(ft.fact_id.in_(doomed))))
            named = set(db.scalars(sa.select(fe.entity_id).where(fe.fact_id.in_(doomed))))
            db.execute(tables.facts.delete().where(f.id.in_(doomed)))  # their links go with them
            db.execute(tables.entity_relations.delete().where(r.turn_id.in_(turns)))
            db.execute(tables.turns.delete().where(tables.turns.c.id.in_(turns)))
            named -= set(db.scalars(sa.select(fe.entity_id).where(fe.entity_id.in_(named))))
            db.execute(tables.entities.delete().where(e.id.in_(named)))
        return len(doomed)

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
        if not question or not answer:
            raise UserError("a fact needs a question and an answer: forget it instead")
        if not 0 <= salience <= 1:
            raise UserError(f"salience is a share from 0 to 1, not {salience}")
        rows = np.asarray(embed([question, answer]), dtype=np.float32)
        f = tables.facts.c
        with self.transaction(namespace) as db:
            changed = db.execute(
                tables.facts.update()
                .where(f.id == fact, f.user == namespace.user, f.agent == namespace.agent)
                .values(
                    question=question, answer=answer, salience=salience, success=True,
                    updated=time.time(), embedder=embedder, vector=rows.astype("<f2").tobytes(),
                )
            )  # fmt: skip
            if not changed.rowcount:
                raise UserError(f"no fact {fact} in this memory: it may have been forgotten")

    def export_turns(self, namespace: Namespace, target: Path) -> int:
        """Write every turn to JSON lines with what its fact says, oldest first; returns how many."""
        return write_lines(target, self.turns(namespace))

    def import_turns(
        self, namespace: Namespace, source: Path, embed: Embed, embedder: str, extract: Extractor
    ) -> int:
        """Write the turns of a file, embedded and read for entities anew.

        Returns how many were not there yet. Raises ``UserError`` naming the line that is wrong,
        before anything is written.
        """
        try:
            lines = source.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"cannot read '{source}' ({error}): name a file of `memory export`"
            ) from None
        rows = [_row(line, n, source) for n, line in enumerate(lines, 1) if line.strip()]
        written = 0
        for row in rows:
            about = str(row.get("about", ""))
            asked = f"{about} {row['question']}".strip()
            vectors = embed([asked, row["answer"]])
            entities, relations = extract(f"{asked}\n{row['answer']}")
            turn = Turn(
                **{name: row[name] for name in _FIELDS},
                vector=vectors[0], answer_vector=vectors[1], embedder=embedder,
                success=bool(row.get("success", True)), salience=float(row.get("salience", 0.5)),
                entities=tuple(entities), relations=tuple(relations), at=float(row["at"]), about=about,
            )  # fmt: skip
            written += self.write(namespace, turn) is not None
        return written


def open_long_term(url: str | None = None) -> LongTerm:
    """Return the memory at ``url``, a file name or nothing for this machine's own; opened once."""
    if url is None:
        return _opened(f"sqlite:///{home() / 'long_term.sqlite'}")
    return _opened(url if "://" in url else f"sqlite:///{Path(url).expanduser()}")


@lru_cache(maxsize=16)
def _opened(url: str) -> LongTerm:
    return LongTerm(url)


def _row(line: str, number: int, source: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if not all(isinstance(row[name], int if name == "step" else str) for name in _FIELDS):
            raise TypeError("a field has another type")
        float(row["at"]), float(row.get("salience", 0.5))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"'{source}' line {number} is no turn ({error}): see memory export"
        ) from None
    checked: dict[str, Any] = row
    return checked
