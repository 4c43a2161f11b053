"""Facts and what they state: a turn becomes a fact, and a newer statement closes an older one.

A state with another value ends what was said of the same subject and relation before, and a denial
ends what was said to be so, in whatever words ("my drink is tea", "I gave up tea"). Nothing is deleted:
an ended statement keeps the time until which it held, and the fact that closed it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from stategate.language.dates import spans
from stategate.language.utterance import is_same_wish
from stategate.language.words import word_list
from stategate.stores.home import thread_of
from stategate.stores.memory import schema as tables
from stategate.stores.memory.extraction import ENDINGS
from stategate.stores.memory.records import TRUSTED, WISH, Fact, Statement, Turn, Written, trust_of
from stategate.stores.memory.schema import among

_DISLIKE = tuple(word_list("verbs_of_disliking"))
#: Relations of which one denies what another said.
_FAMILIES = (
    tuple(word_list("verbs_of_having")),
    (*word_list("verbs_of_liking"), *_DISLIKE),
)
_ARTICLES = re.compile(r"^(?:(?:the|an?|my|our|your|his|her|their|some|any)\s+)+")
Row = Mapping[str, Any]


def write_turn(
    db: sa.Connection, user: str, turn: Turn, now: float, corrected: int | None = None
) -> Written:
    """Write the turn, once, and its statements.

    The fact ``corrected`` is closed where no statement of the turn closes any by itself.
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
        "trust": trust_of(turn.source),
        "vector": np.stack([turn.vector, *turn.more]).astype("<f2").tobytes(),
        "dimension": len(turn.vector),
    }
    fact = db.scalar(tables.facts.insert().values(**row).returning(f.id))
    place = {"user": user, "fact_id": fact, "at": now}
    closed = [
        fact_id
        for statement in turn.statements
        for fact_id in _write_statement(db, user, statement, place, row["trust"])
    ]
    if corrected is not None and not closed:
        _correct(db, corrected, place, turn)
        closed.append(corrected)
    return Written("stored", fact, "", tuple(dict.fromkeys(closed)))


def _correct(db: sa.Connection, corrected: int, place: Row, turn: Turn) -> None:
    """Let the turn in ``place`` end all that the fact ``corrected`` says, and say that it does."""
    s, f, now = tables.statements.c, tables.facts.c, place["at"]
    text = db.scalar(sa.select(f.text).where(f.id == corrected))
    row = {"subject": _key(turn.speaker or "user"), "value": text, "value_key": _key(str(text))}
    row |= {"negated": False, "is_state": False, "valid_from": now}
    open_rows = (s.fact_id == corrected, s.closed_by.is_(None))
    if db.scalar(sa.select(s.id).where(s.fact_id == corrected)) is None:
        db.execute(
            tables.statements.insert().values(
                **{**place, **row, "fact_id": corrected, "relation": "says"}
            )
        )
    db.execute(
        tables.statements.update()
        .where(*open_rows)
        .values(valid_to=now, closed_by=place["fact_id"])
    )
    db.execute(tables.statements.insert().values(**place, **row, relation="corrects"))


def standalone(text: str, about: str) -> str:
    """Return a turn's text as it can be read outside its conversation."""
    about = about.strip().rstrip(".")
    return f"{text} (about: {about})" if about else text


def read_facts(db: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Fact]:
    """Return the facts that meet ``conditions``, by number, with the time for which they hold."""
    f, s = tables.facts.c, tables.statements.c
    names = ("id", "thread_id", "episode_id", "step", "at", "speaker", "source", "trust")
    query = sa.select(f.text, f.about, *(f[name] for name in names))
    stated: dict[int, list[Any]] = {}
    times = sa.select(s.fact_id, s.valid_from, s.valid_to, s.closed_by)
    for held in db.execute(times.where(s.fact_id.in_(sa.select(f.id).where(*conditions)))):
        stated.setdefault(held.fact_id, []).append(held)
    facts = []
    for row in _rows(db, query.where(*conditions).order_by(f.id)):
        text = standalone(row.pop("text"), row.pop("about"))
        facts.append(Fact(text=text, **row, **_validity(stated.get(row["id"], ()))))
    return facts


def _validity(rows: Sequence[Any]) -> dict[str, Any]:
    """Return from when to when a fact holds, by its statements: it ends when the last of them does."""
    starts = [row.valid_from for row in rows if row.valid_from is not None]
    held: dict[str, Any] = {"valid_from": min(starts, default=None)}
    if rows and all(row.closed_by is not None for row in rows):
        last = max(rows, key=lambda row: row.valid_to or 0.0)
        held |= {"valid_to": last.valid_to, "closed_by": last.closed_by}
    return held


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
    user: str,
    ids: Sequence[int] | None,
    thread: str | None,
    source: str | None,
) -> list[Erased]:
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
    columns = (f.id, f.text, f.thread_id, f.episode_id, f.step, f.speaker, f.about)
    rows = db.execute(sa.select(*columns).where(own, *named).order_by(f.id))
    erased = [Erased(*row) for row in rows]
    # Their statements go with them.
    db.execute(tables.facts.delete().where(among(f.id, [one.fact for one in erased])))
    reopen_statements(db, user)
    return erased


# Statements ----------------------------------------------------------------------------------------


def _write_statement(
    db: sa.Connection, user: str, statement: Statement, place: Row, trust: float
) -> Iterator[int]:
    """Write one statement of the turn in ``place``; yield the facts that it closes.

    Turns may come out of order: an older state that is written late ends where the next one begins.
    """
    now = place["at"]
    # "My birthday is on 12 May" is so from now on; "I moved in May" since May.
    is_date = statement.is_state and bool(spans(statement.value, now))
    start = now if is_date or statement.valid_from is None else statement.valid_from
    row: dict[str, Any] = {
        **vars(statement),
        "subject": _key(statement.subject),
        "relation": _key(statement.relation),
        "value_key": _ARTICLES.sub("", _key(statement.value)),
        "valid_from": start,
    }
    new = {**row, "trust": trust}
    rivals = [r for r in _rivals(db, user, new) if r["fact_id"] != place["fact_id"]]
    for old in rivals:
        if old["closed_by"] is None and _is_earlier(old, start, now) and _ends(new, old):
            _close(db, old["id"], max(start, old["valid_from"]), place["fact_id"])
            yield old["fact_id"]
    if statement.is_state and statement.valid_to is None:
        later = (r for r in rivals if not _is_earlier(r, start, now) and _ends(r, new))
        if (ender := next(later, None)) is not None:
            row |= {"valid_to": ender["valid_from"], "closed_by": ender["fact_id"]}
    db.execute(tables.statements.insert().values(**place, **row))


def _is_earlier(row: Row, start: float, now: float) -> bool:
    """Say whether a statement held before one that holds from ``start`` and was made at ``now``.

    "I live in Oslo" names no beginning: the day on which it was said is only the last day on which it
    held for certain. "I moved to Bergen last month", said later, ends it.
    """
    names_no_start = row["valid_from"] == row["at"]
    return bool(row["valid_from"] <= start or (names_no_start and row["at"] <= now))


def reopen_statements(db: sa.Connection, user: str) -> None:
    """Open what a forgotten statement had closed; the next one that is left closes it, if any does."""
    s, closer = tables.statements.c, tables.statements.alias().c
    closes = sa.and_(closer.fact_id == s.closed_by, closer.valid_from <= s.valid_to)
    orphans = _select_statements(user).where(
        s.closed_by.is_not(None), ~sa.exists(sa.select(closer.id).where(closes))
    )
    for row in _rows(db, orphans):
        enders = (
            other
            for other in _rivals(db, user, row)
            if other["fact_id"] != row["fact_id"]
            and _is_earlier(row, other["valid_from"], other["at"])
            and _ends(other, row)
        )
        next_one = next(enders, None)
        if next_one is None:
            _close(db, row["id"], None, None)
        else:
            _close(db, row["id"], next_one["valid_from"], next_one["fact_id"])


def _close(db: sa.Connection, statement: int, at: float | None, fact: int | None) -> None:
    here = tables.statements.c.id == statement
    db.execute(tables.statements.update().where(here).values(valid_to=at, closed_by=fact))


def _select_statements(user: str) -> sa.Select[Any]:
    s, f = tables.statements.c, tables.facts.c
    start = sa.func.coalesce(s.valid_from, 0.0).label("valid_from")
    kept = [column for column in s if column.name != "valid_from"]
    joined = tables.statements.join(tables.facts, f.id == s.fact_id)
    query = sa.select(*kept, start, f.trust).select_from(joined)
    return query.where(tables.statements.c.user == user).order_by(start, s.id)


def _rivals(db: sa.Connection, user: str, row: Row) -> list[dict[str, Any]]:
    """Return the statements that ``row`` may end or be ended by, by their beginnings.

    They share its relation (or one that means the same) or its value; for a denial also those that
    hold its value's longest word.
    """
    s = tables.statements.c
    alike: list[Any] = [s.relation.in_(_related(row["relation"]))]
    if row["value_key"]:
        alike.append(s.value_key == row["value_key"])
        if _denies(row):
            word = max(row["value_key"].split(), key=len)
            alike.append(s.value_key.contains(word, autoescape=True))
    query = _select_statements(user).where(s.subject == row["subject"], sa.or_(*alike))
    if not row["is_state"] and not _denies(row):  # an event ends denials alone
        query = query.where(sa.or_(s.negated, s.relation.in_(_DISLIKE)))
    return _rows(db, query)


def _ends(new: Row, old: Row) -> bool:
    """Say whether ``new`` ends ``old``.

    "I live in Oslo" twice holds on; "I no longer live in Oslo" ends it, and nothing else. What an
    untrusted source says ends nothing that a trusted one said.
    """
    if new["trust"] < TRUSTED <= old["trust"]:
        return False
    given, value = set(new["value_key"].split()), set(old["value_key"].split())
    same_value = new["value_key"] == old["value_key"]
    same_relation = new["relation"] in _related(old["relation"])
    if _denies(new):
        if _denies(old):
            return False
        if not given:
            return same_relation
        if new["relation"] in ENDINGS:  # whatever one had of it
            return given <= value or bool(value and value <= given)
        return (same_relation and given <= value) or bool(old["is_state"] and same_value)
    if _denies(old):
        return same_relation and value <= given
    is_newer = new["is_state"] and old["is_state"] and new["relation"] == old["relation"]
    if new["relation"] == WISH == old["relation"]:
        return not same_value and is_same_wish(new["value_key"], old["value_key"])
    return bool(is_newer and not same_value)


def _denies(row: Row) -> bool:
    """Say whether a row takes something back; "I hate it" denies "I like it"."""
    return bool(row["negated"]) != (row["relation"] in _DISLIKE)


def _related(relation: str) -> tuple[str, ...]:
    """Return the relations that say the same as ``relation``, itself included."""
    return next((family for family in _FAMILIES if relation in family), (relation,))


def _rows(db: sa.Connection, query: sa.Select[Any]) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in db.execute(query)]


def _key(name: str) -> str:
    return " ".join(name.lower().split())[:200]
