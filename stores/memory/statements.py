"""What turns state, and for how long: a newer value closes an older one and deletes nothing."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from stategate.language.dates import spans
from stategate.language.words import word_list
from stategate.stores.memory import schema as tables
from stategate.stores.memory.changes import (
    ALIKE,
    CHANGES,
    CORRECTED,
    FORMER,
    OFF,
    OVER,
    RETRACTED,
    SAME_KIND,
)
from stategate.stores.memory.records import TRUSTED, Namespace, Turn
from stategate.stores.memory.schema import among, within
from stategate.stores.memory.stated import ENDINGS, is_past
from stategate.stores.text import words_of

_DISLIKE = tuple(word_list("verbs_of_disliking"))
#: Relations of which one denies what another said.
_FAMILIES = (
    tuple(word_list("verbs_of_having")),
    (*word_list("verbs_of_liking"), *_DISLIKE),
)
_NAME = re.compile(r"\b[A-Z][\w'’-]+")
_ARTICLES = re.compile(r"^(?:(?:the|an?|my|our|your|his|her|their|some|any)\s+)+")


def write_statements(
    db: sa.Connection, namespace: Namespace, turn: Turn, fact: int, turn_id: int, now: float
) -> list[int]:
    """Keep what the turn states; return the facts that it closes.

    A state with another value ends what was said of the same subject and relation before; a denial ends
    what was said to be so, in whatever words ("my drink is tea", "I gave up tea"; "I have a dog called
    Rex", "I don't have a dog"), and is ended by what says the contrary again. What an untrusted source
    says ends nothing that a trusted one said. Turns may come out of order: an older state that is
    written late ends where the next one begins.
    """
    closed: list[int] = []
    trust = db.scalar(sa.select(tables.facts.c.trust).where(tables.facts.c.id == fact)) or 0.0
    for statement in turn.statements:
        # "My birthday is on 12 May" is so from now on; "I moved in May" since May.
        is_date = statement.is_state and bool(spans(statement.value, now))
        start = now if is_date or statement.valid_from is None else statement.valid_from
        row: dict[str, Any] = {
            **vars(statement),
            "subject": _key(statement.subject),
            "valid_from": start,
            "relation": _key(statement.relation),
            "value_key": _value_key(statement.value),
        }
        corrects = row.pop("corrects")
        changed = _changed(db, namespace, row, corrects, turn, fact, trust)
        if not changed and row["relation"] in CHANGES:
            continue
        for other in changed:
            _close(db, other, min(start, now), fact)
            closed.append(int(other.fact_id))
        if changed and row["relation"] == CORRECTED:
            row |= _corrected(changed[0], statement.value, corrects)
        row["is_state"] = statement.is_state or bool(changed and corrects)
        known = [other for other in _known(db, namespace, row, trust) if other.fact_id != fact]
        ended = [o for o in known if _starts(o) <= start and o.closed_by is None and _ends(row, o)]
        for other in ended:
            _close(db, other, start, fact)
            closed.append(int(other.fact_id))
        later = [o for o in known if _starts(o) > start and _ends(_mapping(o), _Row(row))]
        if later and statement.is_state and statement.valid_to is None:
            row |= {"valid_to": _starts(later[0]), "closed_by": later[0].fact_id}
        db.execute(
            tables.statements.insert().values(
                **vars(namespace), fact_id=fact, turn_id=turn_id, at=now, **row
            )
        )
    return list(dict.fromkeys(closed))


def _close(db: sa.Connection, other: Any, at: float, fact: int) -> None:
    change = {"valid_to": at, "closed_by": fact}
    here = tables.statements.c.id == other.id
    db.execute(tables.statements.update().where(here).values(**change))


def _changed(
    db: sa.Connection,
    namespace: Namespace,
    row: Mapping[str, Any],
    corrects: str,
    turn: Turn,
    fact: int,
    trust: float,
) -> list[Any]:
    """Return the open statements that ``row`` says to be over, taken back or wrong, the newest first.

    They are found by words, whatever relation they were said by. What one takes back or corrects is
    one's own; whose end is told has to be named, or be of the one who tells it.
    """
    kind = row["relation"]
    if not corrects and kind not in (OVER, OFF, RETRACTED):
        return []
    s, f, t = tables.statements.c, tables.facts.c, tables.turns.c
    query = (
        sa.select(
            s.id,
            s.fact_id,
            s.subject,
            s.relation,
            s.value,
            s.is_state,
            s.valid_from,
            f.question,
            f.speaker,
            t.thread_id,
        )
        .select_from(
            tables.statements.join(tables.facts, f.id == s.fact_id).join(
                tables.turns, t.id == s.turn_id
            )
        )
        .where(
            *within(tables.statements, namespace),
            s.fact_id != fact,
            s.closed_by.is_(None),
            s.negated.is_(False),
            s.relation.not_in(CHANGES),
        )
        .order_by(s.at.desc(), s.id.desc())
    )
    if trust < TRUSTED:
        query = query.where(f.trust < TRUSTED)
    if corrects in (FORMER, ALIKE):
        query = query.where(s.subject == row["subject"], s.relation.in_(_related(row["relation"])))
        every = list(db.execute(query))
        near = [o for o in every if _alike(o.value, row["value"])]
        is_one = row["relation"] not in {word for family in _FAMILIES for word in family}
        return near[:1] or (every[:1] if corrects == FORMER and is_one else [])
    if kind in (OVER, OFF):
        return [o for o in db.execute(query) if _is_over(row, o)]
    said = db.execute(query.where(f.speaker == turn.speaker))
    if kind == RETRACTED and row["value"]:
        given = _stems(row["value"])
        return [o for o in said if given and given <= _stems(f"{o.subject} {o.value} {o.question}")]
    if corrects == SAME_KIND or kind == RETRACTED:
        last = [o for o in said if o.thread_id == turn.thread_id]
        last = [o for o in last if o.fact_id == last[0].fact_id]  # the newest of this talk
        return (
            last if kind == RETRACTED else [o for o in last if _place_of(o, row["value"], "")][:1]
        )
    others = list(said)
    words = _words(corrects)
    return (
        [o for o in others if words <= _words(o.value)]
        or [o for o in others if words <= _words(o.question)]
    )[:1]


def _is_over(row: Mapping[str, Any], old: Any) -> bool:
    """Say whether what has ended is what ``old`` tells; what happened before it has happened."""
    given, names = _stems(row["value"]), _stems(" ".join(_NAME.findall(row["value"])))
    if not given:
        return False
    lasts = old.is_state or not is_past(old.relation, old.question)
    value = _stems(old.value)
    is_own = old.subject == row["subject"] or bool(names)
    if given <= _stems(old.subject):
        return lasts
    if is_own and given <= value:
        return lasts or row["relation"] == OFF
    return bool(names) and row["relation"] == OFF and lasts and names <= value


def _alike(one: str, other: str) -> bool:
    """Say whether two values are of one form: they share a word that tells, or the preposition."""
    first, second = (value.lower().split()[:1] for value in (one, other))
    shared = first == second and len(one.split()) > 1 and not _ARTICLES.match(f"{one.lower()} ")
    return shared or bool(_stems(one) & _stems(other))


def _corrected(old: Any, new: str, corrects: str) -> dict[str, Any]:
    """Return what the old statement says with the new words in the place of those they correct."""
    place = _place_of(old, new, "" if corrects == SAME_KIND else corrects)
    value = new if place is None else f"{old.value[: place[0]]}{new}{old.value[place[1] :]}"
    return {
        "subject": old.subject,
        "relation": old.relation,
        "value": value,
        "value_key": _value_key(value),
    }


def _place_of(old: Any, new: str, words: str) -> tuple[int, int] | None:
    """Return where in the old value stand ``words``, or without them what is of the kind of ``new``."""
    if words:
        pattern = re.escape(words)
    elif dates := spans(old.value, 0.0) if spans(new, 0.0) else ():
        pattern = re.escape(dates[0].text)
    else:
        pattern = r"\d[\d.,:]*" if new[:1].isdigit() else _NAME.pattern
    match = re.search(pattern, old.value, re.IGNORECASE if words else 0)
    return None if match is None else match.span()


def _stems(text: str) -> set[str]:
    return set(words_of(text))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def reopen(db: sa.Connection, facts: set[int], turns: set[int]) -> list[int]:
    """Open what forgotten ``facts`` or ``turns`` had closed; returns the statements' numbers.

    Call it before they are deleted.
    """
    s = tables.statements.c
    ended = set(db.scalars(sa.select(s.id).where(among(s.closed_by, facts))))
    # A fact that stays may have closed something by a turn that goes.
    said = sa.select(s.fact_id, s.valid_from, s.turn_id)
    starts: dict[tuple[int, float], set[int]] = {}
    touched = sa.select(s.fact_id).where(among(s.turn_id, turns))
    for row in db.execute(said.where(s.fact_id.in_(touched))):
        starts.setdefault((row.fact_id, row.valid_from), set()).add(row.turn_id)
    for (fact, start), by in starts.items():
        if by <= turns:
            query = sa.select(s.id).where(s.closed_by == fact, s.valid_to == start)
            ended |= set(db.scalars(query))
    change = {"valid_to": None, "closed_by": None}
    db.execute(tables.statements.update().where(among(s.id, ended)).values(**change))
    return sorted(ended)


def close_again(db: sa.Connection, namespace: Namespace, statements: Sequence[int]) -> None:
    """Let the next statement that is left close each, as if the forgotten had never been."""
    s, f = tables.statements.c, tables.facts.c
    joined = tables.statements.join(tables.facts, f.id == s.fact_id)
    query = sa.select(tables.statements, f.trust).select_from(joined)
    for row in list(db.execute(query.where(among(s.id, statements)))):
        least = TRUSTED if row.trust >= TRUSTED else 0.0
        others = _known(db, namespace, _mapping(row), TRUSTED)
        trusts = dict(
            db.execute(sa.select(f.id, f.trust).where(f.id.in_([o.fact_id for o in others]))).all()
        )
        enders = [
            o
            for o in others
            if o.fact_id != row.fact_id
            and trusts[o.fact_id] >= least
            and _starts(o) >= _starts(row)
            and _ends(_mapping(o), row)
        ]
        if enders:
            change = {"valid_to": _starts(enders[0]), "closed_by": enders[0].fact_id}
            db.execute(tables.statements.update().where(s.id == row.id).values(**change))


def _known(
    db: sa.Connection, namespace: Namespace, row: Mapping[str, Any], trust: float
) -> Sequence[Any]:
    """Return what this one may end or be ended by, by its beginnings.

    That is what shares its relation (or one that means the same) or its value; for a denial also what
    holds its value's longest word.
    """
    s, f = tables.statements.c, tables.facts.c
    alike: list[Any] = [s.relation.in_(_related(row["relation"]))]
    if row["value_key"]:
        alike.append(s.value_key == row["value_key"])
    if _denies(row) and row["value_key"]:
        word = max(row["value_key"].split(), key=len)
        alike.append(s.value_key.contains(word, autoescape=True))
    query = (
        sa.select(
            s.id,
            s.fact_id,
            s.relation,
            s.value_key,
            s.negated,
            s.is_state,
            s.valid_from,
            s.closed_by,
        )
        .select_from(tables.statements.join(tables.facts, f.id == s.fact_id))
        .where(*within(tables.statements, namespace), s.subject == row["subject"], sa.or_(*alike))
        .order_by(s.valid_from, s.id)
    )
    if not _denies(row):  # an event ends denials alone
        denials = sa.or_(s.negated, s.relation.in_(_DISLIKE))
        query = query.where(sa.or_(s.is_state, denials) if row["is_state"] else denials)
    if trust < TRUSTED:
        query = query.where(f.trust < TRUSTED)
    return list(db.execute(query))


class _Row:
    """A row that is not written yet, read like one that is."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)
        self._mapping = values


def _mapping(row: Any) -> Mapping[str, Any]:
    return dict(row._mapping)


def _ends(new: Mapping[str, Any], old: Any) -> bool:
    """Say whether ``new`` ends ``old``.

    "I live in Oslo" twice holds on; "I no longer live in Oslo" ends it, and nothing else.
    """
    given, value = set(new["value_key"].split()), set(old.value_key.split())
    same_value = new["value_key"] == old.value_key
    same_relation = new["relation"] in _related(old.relation)
    if _denies(new):
        if _denies(_mapping(old)):
            return False
        if not given:
            return same_relation
        if new["relation"] in ENDINGS:  # whatever one had of it
            return given <= value or bool(value and value <= given)
        return (same_relation and given <= value) or bool(old.is_state and same_value)
    if _denies(_mapping(old)):
        return same_relation and value <= given
    return bool(
        new["is_state"] and old.is_state and new["relation"] == old.relation and not same_value
    )


def _denies(row: Mapping[str, Any]) -> bool:
    """Say whether a row takes something back; "I hate it" denies "I like it"."""
    return bool(row["negated"]) != (row["relation"] in _DISLIKE)


def _related(relation: str) -> tuple[str, ...]:
    """Return the relations that say the same as ``relation``, itself included."""
    return next((family for family in _FAMILIES if relation in family), (relation,))


def _starts(row: Any) -> float:
    return float(row.valid_from or 0.0)


def _key(name: str) -> str:
    return " ".join(name.lower().split())[:200]


def _value_key(value: str) -> str:
    return _ARTICLES.sub("", _key(value))
