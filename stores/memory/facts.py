"""Facts of long-term memory: merged where they say the same, noted where they contradict."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from stategate.language.numbers import CARDINALS, ORDINALS
from stategate.language.words import CALENDAR, FUNCTION_WORDS, MONTHS, WEEKDAYS
from stategate.stores.memory import schema as tables
from stategate.stores.memory.records import TRUSTED, Fact, Namespace, Turn, trust_of
from stategate.stores.memory.schema import key_of, within
from stategate.stores.memory.search import NamespaceIndex, packed

#: Cosines from which two questions, and two answers, say the same; and two things that were told.
SAME_QUESTION, SAME_ANSWER, SAME_TOLD = 0.92, 0.9, 0.93
#: The salience of a fact that was confirmed again and again.
TOP_SALIENCE = 0.7
_ASKING = re.compile(r"\b(?:who|whom|whose|when|where|why|how|which|what)\b")
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|neither|nor|without|cannot)\b|\b\w*n['’]t\b", re.I
)
#: Words of number, order and time: texts that differ in one say different things.
_ORDINAL = frozenset(
    [
        *CARDINALS,
        *ORDINALS,
        *MONTHS,
        *WEEKDAYS,
        *"yesterday today tomorrow last next morning evening before after left right more".split(),
        *"less former ex".split(),
    ]
)


def write_fact(
    db: sa.Connection, namespace: Namespace, index: NamespaceIndex, turn: Turn, now: float
) -> tuple[int, bool]:
    """Merge the turn into a fact that says the same, or make one; note contradictions.

    Returns the fact's id and whether it was there. ``index`` is up to date with the database. Facts of
    trusted and of untrusted sources are never merged, nor does one contradict the other.
    """
    trust = trust_in(db, turn)
    scores = index.first_halves(turn.vector, turn.embedder)
    least = SAME_QUESTION if turn.answer else SAME_TOLD
    ids = [
        index.known[place].id
        for place in np.flatnonzero(scores >= least)
        if (index.known[place].trust >= TRUSTED) == (trust >= TRUSTED)
    ]
    near = [row for row in whole_facts(db, ids) if _comparable(row, turn)]
    same = [row for row in near if row.success == turn.success and _agree(row, turn)]
    f = tables.facts.c
    if same:
        fact = same[0]
        salience = min(TOP_SALIENCE, max(fact.salience, turn.salience) + 0.05)
        change = {
            "times": fact.times + 1,
            "updated": max(now, fact.updated),
            "salience": salience,
            "trust": min(fact.trust, trust),
        }
        db.execute(tables.facts.update().where(f.id == fact.id).values(**change))
        return int(fact.id), True
    vectors = [
        turn.vector,
        *([] if turn.answer_vector is None else [turn.answer_vector]),
        *turn.more,
    ]
    inserted = db.execute(
        tables.facts.insert().values(
            **vars(namespace),
            question=told(turn),
            answer=turn.answer,
            salience=turn.salience,
            success=turn.success,
            created=now,
            updated=now,
            times=1,
            embedder=turn.embedder,
            vector=packed(vectors),
            dimension=len(turn.vector),
            speaker=turn.speaker,
            source=turn.source,
            trust=trust,
        )
    )
    fact_id = key_of(inserted)
    for other in near:
        if turn.answer and other.success and turn.success:
            pairs = [(fact_id, other.id), (other.id, fact_id)]
            values = [{"fact_id": a, "other_id": b, "at": now} for a, b in pairs]
            db.execute(tables.contradictions.insert(), values)
    return fact_id, False


def trust_in(db: sa.Connection, turn: Turn) -> float:
    """Return the least trust of the turn's source and of the facts that it was made from."""
    own = trust_of(turn.source) if turn.trust is None else turn.trust
    if not turn.lineage:
        return own
    f = tables.facts.c
    least = db.scalar(sa.select(sa.func.min(f.trust)).where(f.id.in_(list(turn.lineage))))
    return own if least is None else min(own, float(least))


def whole_facts(db: sa.Connection, ids: Sequence[int]) -> list[Any]:
    """Return facts with all their columns, by id."""
    if not ids:
        return []
    f = tables.facts.c
    return list(db.execute(sa.select(tables.facts).where(f.id.in_(ids)).order_by(f.id)))


def least_worth(db: sa.Connection, namespace: Namespace, new: int, count: int) -> list[int]:
    """Return the ``count`` facts that are missed least, but not ``new``, for a memory that is full.

    First what was not answered, then what has ended, then what was told once, was less salient, older.
    """
    f, s = tables.facts.c, tables.statements.c
    open_ = sa.select(s.fact_id).where(s.closed_by.is_(None))
    ended = sa.select(s.fact_id).where(s.closed_by.is_not(None), s.fact_id.not_in(open_))
    order = (
        f.success.asc(),
        f.id.in_(ended).desc(),
        sa.case((f.times > 1, 1), else_=0),
        f.salience,
    )
    query = (
        sa.select(f.id)
        .where(*within(tables.facts, namespace), f.id != new)
        .order_by(*order, f.updated, f.id)
    )
    return list(db.scalars(query.limit(count)))


def light_facts(db: sa.Connection, ids: Sequence[int]) -> list[Any]:
    """Return of each fact what decides whether it may be shown."""
    f = tables.facts.c
    return (
        list(db.execute(sa.select(f.id, f.salience, f.trust).where(f.id.in_(ids)))) if ids else []
    )


def as_facts(
    db: sa.Connection, rows: Sequence[Any], scores: Mapping[int, float] | None = None
) -> list[Fact]:
    """Return rows as facts: with the turns they came from, what contradicts them, and until when."""
    ids = [row.id for row in rows]
    others: dict[int, list[int]] = {}
    c = tables.contradictions.c
    for row in _of_facts(db, sa.select(c.fact_id, c.other_id), c.fact_id, ids):
        others.setdefault(row.fact_id, []).append(row.other_id)
    sources = _sources(db, ids)
    valid = validity(db, ids)
    return [
        Fact(
            row.id,
            row.question,
            row.answer,
            row.salience,
            bool(row.success),
            row.created,
            row.updated,
            row.times,
            (scores or {}).get(row.id, 0.0),
            tuple(others.get(row.id, ())),
            tuple(sources.get(row.id, ())),
            row.speaker,
            row.source,
            row.trust,
            *valid.get(row.id, (None, None, None)),
        )
        for row in rows
    ]


def validity(
    db: sa.Connection, ids: Sequence[int]
) -> dict[int, tuple[float | None, float | None, int | None]]:
    """Return from when to when each fact holds and which fact ended it, of those that state anything.

    A fact ends when the last thing that it states does.
    """
    s = tables.statements.c
    every: dict[int, list[Any]] = {}
    query = sa.select(s.fact_id, s.valid_from, s.valid_to, s.closed_by)
    for row in _of_facts(db, query, s.fact_id, ids):
        every.setdefault(row.fact_id, []).append(row)
    found = {}
    for fact, rows in every.items():
        starts = [row.valid_from for row in rows if row.valid_from is not None]
        closed = [row for row in rows if row.closed_by is not None]
        is_over = len(closed) == len(rows)
        last = max(closed, key=lambda row: row.valid_to or 0.0) if is_over else None
        found[fact] = (
            min(starts) if starts else None,
            None if last is None else last.valid_to,
            None if last is None else last.closed_by,
        )
    return found


def _sources(db: sa.Connection, ids: Sequence[int]) -> dict[int, list[Mapping[str, Any]]]:
    t, ft = tables.turns.c, tables.fact_turns.c
    found: dict[int, list[Mapping[str, Any]]] = {}
    joined = tables.turns.join(tables.fact_turns, t.id == ft.turn_id)
    query = sa.select(ft.fact_id, t.thread_id, t.episode_id, t.step, t.at).select_from(joined)
    for row in _of_facts(db, query.order_by(t.at, t.id), ft.fact_id, ids):
        values = dict(row._mapping)
        found.setdefault(values.pop("fact_id"), []).append(values)
    return found


def _of_facts(
    db: sa.Connection, query: sa.Select[Any], fact: sa.Column[int], ids: Sequence[int]
) -> Iterator[Any]:
    """Yield the rows of ``query`` whose ``fact`` is one of ``ids``, as many at once as SQL takes."""
    for i in range(0, len(ids), 500):
        yield from db.execute(query.where(fact.in_(ids[i : i + 500])))


def _comparable(row: Any, turn: Turn) -> bool:
    if bool(row.answer) != bool(turn.answer):
        return False
    if turn.answer:
        return _ask_alike(row.question, told(turn))
    return bool(row.speaker == turn.speaker)


def _agree(row: Any, turn: Turn) -> bool:
    """Say whether a fact and the turn say the same, in numbers, names and negation too."""
    if not turn.answer:
        return says_the_same(row.question, told(turn))
    if not turn.success:
        return True  # two failures to answer one question are one fact
    if turn.answer_vector is None:
        return False
    width = row.dimension or len(turn.vector)
    answer = np.frombuffer(row.vector, dtype="<f2").astype(np.float32).reshape(-1, width)[1]
    near = float(answer @ np.asarray(turn.answer_vector, dtype=np.float32)) >= SAME_ANSWER
    return near and _numbers(str(row.answer)) == _numbers(turn.answer)


def says_the_same(one: str, other: str) -> bool:
    """Say whether two texts that are near in meaning say the same, in what embeddings overlook.

    They have the same words of content (in one order, where they name two), the same tense of "be",
    "have" and "do", and both or neither deny it. What says the same in other words stays apart: a fact
    too many is outranked, a wrong merger is a loss.
    """
    first, second = _content(one), _content(other)
    names = _names(one)
    if len(names - CALENDAR) < 2:
        first, second = sorted(first), sorted(second)
    alike = first == second and names - CALENDAR == _names(other) - CALENDAR
    return alike and all(read(one) == read(other) for read in (_denials, _past, _orders))


def _content(text: str) -> list[str]:
    words = re.findall(r"\w+(?:['’]\w+)?", text.lower())
    bare = (re.sub(r"['’](?:s|m|re|ve|d|ll)$", "", word) for word in words)
    return [w for w in bare if w not in FUNCTION_WORDS and not _NEGATION.fullmatch(w)]


def _names(text: str) -> set[str]:
    """Return the words that are capitalised inside a sentence."""
    words = re.findall(r"(?<![.!?:\"“]\s)(?<!^)\b[A-Z][\w'’-]+", text)
    return {
        re.sub(r"['’]s$", "", word).lower() for word in words if not word.startswith(("I'", "I’"))
    }


def _denials(text: str) -> int:
    return len(_NEGATION.findall(text)) % 2


def _past(text: str) -> bool:
    return bool(re.search(r"\b(?:was|were|had|did|used to)\b", text.lower()))


def _orders(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if word in _ORDINAL}


def told(turn: Any) -> str:
    """Return a turn's question as it can be read outside its conversation."""
    about = turn.about.strip().rstrip(".")
    return f"{turn.question} (about: {about})" if about else str(turn.question)


def _numbers(text: str) -> set[str]:
    """Return the numbers that ``text`` names."""
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def _ask_alike(one: str, other: str) -> bool:
    """Say whether two questions ask for the same kind of thing, about the same numbers.

    "Who placed the buoy?" and, of the same buoy, "When was that?" are near in meaning, but another
    answer to the second is no contradiction of the first.
    """
    words = [set(_ASKING.findall(text.partition(" (about: ")[0].lower())) for text in (one, other)]
    return words[0] == words[1] and _numbers(one) == _numbers(other)
