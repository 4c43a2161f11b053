"""Facts and what they state: a turn becomes a fact, and a later statement ends an earlier one.

Which statements a later one ends is learned (``language.updates``). Nothing is deleted: an ended
statement keeps the time until which it held, and the fact that ended it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from stategate.language.updates import SURE, end_chances
from stategate.language.utterance import is_same_wish
from stategate.stores.corpus.lexical import words as stems
from stategate.stores.home import thread_of
from stategate.stores.memory import schema as tables
from stategate.stores.memory.records import TRUST, TRUSTED, Fact, Turn, Written
from stategate.stores.memory.schema import among

Row = Mapping[str, Any]
_READ = 64  # pairs of statements that the model reads for a turn, some 5 ms each


def write_turn(
    db: sa.Connection, user: str, turn: Turn, now: float, near: Sequence[int] = ()
) -> Written:
    """Write the turn, once, and its statements; of the facts ``near`` it, end what it ends.

    Turns may come out of order: what is written late may be ended by what was told after it.
    """
    f = tables.facts.c
    here = (f.episode_id == turn.episode_id, f.step == turn.step)
    if db.scalar(sa.select(f.id).where(tables.facts.c.user == user, *here)) is not None:
        return Written("repeated", reason="this turn was written before")
    kept = ("thread_id", "episode_id", "step", "text", "about", "speaker", "source", "embedder")
    row = {
        "user": user,
        **{name: getattr(turn, name) for name in kept},
        "at": now,
        # A source such as "tool:search" is a tool; an unknown one is trusted the least.
        "trust": TRUST.get(turn.source.partition(":")[0], min(TRUST.values())),
        "vector": np.stack([turn.vector, *turn.more]).astype("<f2").tobytes(),
        "dimension": len(turn.vector),
    }
    fact = db.scalar(tables.facts.insert().values(**row).returning(f.id))
    own = {"user": user, "fact_id": fact, "at": now}
    if turn.statements:
        db.execute(tables.statements.insert(), [{**own, **vars(one)} for one in turn.statements])
    new, others = _statements_of(db, [fact]), _statements_of(db, near)
    pairs = [_in_order(one, other) for one in new for other in others]
    found = {(one["id"], two["fact_id"]): (one, two) for one, two in _ending(pairs)}
    for earlier, later in found.values():
        end_statement(db, user, earlier, later["fact_id"], max(later["since"], earlier["since"]))
    closed = [earlier["fact_id"] for earlier, _ in found.values() if earlier["fact_id"] != fact]
    return Written("stored", fact, "", tuple(dict.fromkeys(closed)))


def _statements_of(db: sa.Connection, ids: Sequence[int]) -> list[Row]:
    """Return the statements of some facts, with their trust."""
    s, f = tables.statements.c, tables.facts.c
    joined = tables.statements.join(tables.facts, f.id == s.fact_id)
    query = sa.select(*s, f.trust).select_from(joined).where(among(s.fact_id, ids)).order_by(s.id)
    return [{**row} for row in db.execute(query).mappings()]


def _in_order(one: Row, other: Row) -> tuple[Row, Row]:
    """Return two statements as (earlier, later), ``one`` being the later of two of the same time.

    "I live in Oslo" names no beginning: "I moved to Bergen last month", said the next day, is later.
    """
    is_later = (
        one["at"] >= other["at"]
        if other["since"] == other["at"]
        else one["since"] >= other["since"]
    )
    return (other, one) if is_later else (one, other)


def _ending(pairs: Sequence[tuple[Row, Row]]) -> list[tuple[Row, Row]]:
    """Return those of ``pairs`` (earlier, later) of which the later statement ends the earlier one.

    Both are wishes or neither is, and the later one is trusted where the earlier one is.
    """
    pairs = [
        (one, other)
        for one, other in pairs
        if one["is_wish"] == other["is_wish"] and not other["trust"] < TRUSTED <= one["trust"]
    ]
    plain = _nearest([pair for pair in pairs if not pair[0]["is_wish"]])
    chances = end_chances([(one["text"], other["text"]) for one, other in plain])
    wishes = [
        (one, other)
        for one, other in pairs
        if one["is_wish"]
        and one["text"] != other["text"]
        and is_same_wish(one["text"], other["text"])
    ]
    ended = [pair for pair, chance in zip(plain, chances, strict=True) if chance >= SURE]
    return ended + wishes


def _nearest(pairs: Sequence[tuple[Row, Row]]) -> Sequence[tuple[Row, Row]]:
    """Return the pairs that are read: of two long turns those that share the most words.

    Forty sentences beside eight facts of forty would be read for a minute while others wait to write.
    """
    if len(pairs) <= _READ:
        return pairs
    found = {row["text"]: set(stems(row["text"])) for pair in pairs for row in pair}
    by_words = sorted(pairs, key=lambda p: -len(found[p[0]["text"]] & found[p[1]["text"]]))
    return by_words[:_READ]


def end_fact(db: sa.Connection, user: str, fact: int, by: int, at: float) -> None:
    """Let the fact ``by`` end what it most probably ends of all that ``fact`` states."""
    earlier, later = _statements_of(db, [fact]), _statements_of(db, [by])
    pairs = [(one, other) for one in earlier for other in later]
    chances = end_chances([(one["text"], other["text"]) for one, other in pairs])
    if pairs:
        end_statement(db, user, pairs[int(np.argmax(chances))][0], by, at)


def end_statement(db: sa.Connection, user: str, statement: Row, by: int, at: float) -> None:
    """Write that the fact ``by`` ends a statement at ``at``."""
    row = {"user": user, "statement_id": statement["id"], "fact_id": by, "at": at}
    db.execute(tables.endings.insert().values(**row))


def standalone(text: str, about: str) -> str:
    """Return a turn's text as it can be read outside its conversation."""
    about = about.strip().rstrip(".")
    return f"{text} (about: {about})" if about else text


def read_facts(db: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Fact]:
    """Return the facts that meet ``conditions``, by number, with the time for which they hold."""
    f, s, e = tables.facts.c, tables.statements.c, tables.endings.c
    names = ("id", "thread_id", "episode_id", "step", "at", "speaker", "source", "trust")
    query = sa.select(f.text, f.about, *(f[name] for name in names))
    query = query.where(*conditions).order_by(f.id)
    joined = tables.statements.outerjoin(tables.endings, e.statement_id == s.id)
    columns = (s.fact_id, s.id, s.text, s.since, e.at, e.fact_id.label("closer"))
    of_facts = sa.select(*columns).select_from(joined)
    of_facts = of_facts.where(s.fact_id.in_(sa.select(f.id).where(*conditions)))
    # Of the endings of a statement the first counts.
    stated: dict[int, dict[int, Any]] = {}
    for one in db.execute(of_facts.order_by(e.at.desc(), e.id.desc())):
        stated.setdefault(one.fact_id, {})[one.id] = one
    facts = []
    for found in db.execute(query).mappings():
        row: dict[str, Any] = {**found}
        text = standalone(row.pop("text"), row.pop("about"))
        own = [*stated.get(row["id"], {}).values()]
        facts.append(Fact(text=text, **row, **_validity(own)))
    return facts


def _validity(rows: Sequence[Any]) -> dict[str, Any]:
    """Return from when to when a fact holds, by its statements: it ends when the last of them does."""
    held: dict[str, Any] = {"valid_from": min((row.since for row in rows), default=None)}
    ended = [row for row in rows if row.closer is not None]
    if ended and len(ended) == len(rows):
        last = max(rows, key=lambda row: row.at)
        return held | {"valid_to": last.at, "closed_by": last.closer}
    return held | {"ended": tuple((row.at, row.text, row.closer) for row in ended)}


class Erased(NamedTuple):
    """A fact that went: its number, its words, and where it was told.

    ``speaker`` and ``about`` are what stood in front of the words where they were embedded.
    """

    id: int
    text: str
    thread_id: str
    episode_id: str
    step: int
    speaker: str
    about: str


def erase_facts(
    db: sa.Connection,
    user: str,
    ids: Sequence[int] | None,
    thread: str | None,
    source: str | None,
) -> Sequence[Erased]:
    """Delete facts and all that hangs on them; everything of the user where nothing is named.

    A fact that is named by its number goes wherever it was told in the same words. A thread is named as
    its user names it, or as the checkpoints do (``home.thread_of``).
    """
    f, own = tables.facts.c, tables.facts.c.user == user
    named: list[sa.ColumnElement[bool]] = []
    if ids is not None:
        named.append(f.text.in_(sa.select(f.text).where(own, among(f.id, ids))))
    if thread is not None:
        named.append(f.thread_id.in_({thread, thread_of(user, thread)}))
    if source is not None:
        named.append(f.source == source)
    told = [f[name] for name in Erased._fields]
    # Their statements go with them, and what they ended holds again.
    erased = db.execute(tables.facts.delete().where(own, *named).returning(*told))
    return sorted(Erased(*row) for row in erased)
