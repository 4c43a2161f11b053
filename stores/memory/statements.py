"""What turns state, and for how long it holds: a newer value closes an older one and deletes nothing."""

import sqlalchemy as sa

from stores.memory import database as tables
from stores.memory.database import within
from stores.memory.records import TRUSTED, Namespace, Statement, Turn


def write_statements(
    db: sa.Connection, namespace: Namespace, turn: Turn, fact: int, turn_id: int, now: float
) -> list[int]:
    """Keep what the turn states; return the facts that it closes.

    A state with another value, or a denial, ends what was said of the same subject and relation before.
    What an untrusted source says ends nothing that a trusted one said. Turns may come out of order: an
    older state that is written late ends where the next one begins.
    """
    closed: list[int] = []
    trust = db.scalar(sa.select(tables.facts.c.trust).where(tables.facts.c.id == fact)) or 0.0
    for statement in turn.statements:
        values = {**vars(statement), "subject": _key(statement.subject)}
        values["relation"] = _key(statement.relation)
        start = now if statement.valid_from is None else statement.valid_from
        values["valid_from"] = start
        if statement.is_state or statement.negated:
            earlier, next_start, next_fact = _others(db, namespace, values, start, trust)
            closed += _close(db, statement, earlier, start, fact)
            if next_start is not None and statement.valid_to is None:
                values |= {"valid_to": next_start, "closed_by": next_fact}
        db.execute(
            tables.statements.insert().values(
                **vars(namespace), fact_id=fact, turn_id=turn_id, at=now, **values
            )
        )
    return list(dict.fromkeys(id_ for id_ in closed if id_ != fact))


def _key(name: str) -> str:
    return " ".join(name.lower().split())[:200]


def _others(
    db: sa.Connection, namespace: Namespace, values: dict[str, object], start: float, trust: float
) -> tuple[list[sa.Row[tuple[object, ...]]], float | None, int | None]:
    """Return the open states of the same kind said before, and when and by what the next one begins."""
    s, f = tables.statements.c, tables.facts.c
    query = (
        sa.select(s.id, s.fact_id, s.value, s.negated, s.valid_from, s.valid_to, s.closed_by)
        .select_from(tables.statements.join(tables.facts, f.id == s.fact_id))
        .where(
            *within(tables.statements, namespace),
            s.subject == values["subject"], s.relation == values["relation"],
            s.is_state | s.negated,
        )
        .order_by(s.valid_from)
    )  # fmt: skip
    if trust < TRUSTED:
        query = query.where(f.trust < TRUSTED)
    rows = list(db.execute(query))
    earlier = [row for row in rows if row.closed_by is None and (row.valid_from or 0.0) <= start]
    later = [
        row
        for row in rows
        if (row.valid_from or 0.0) > start and _key(row.value) != _key(str(values["value"]))
    ]
    if not later:
        return earlier, None, None
    return earlier, later[0].valid_from, later[0].fact_id


def _close(
    db: sa.Connection,
    statement: Statement,
    earlier: list[sa.Row[tuple[object, ...]]],
    start: float,
    fact: int,
) -> list[int]:
    s = tables.statements.c
    closed = []
    for row in earlier:
        is_same = _key(str(row.value)) == _key(statement.value)
        # "I live in Oslo" twice holds on; "I no longer live in Oslo" ends it, and nothing else.
        ends = (is_same or not statement.value) if statement.negated else not is_same
        if row.negated:
            ends = is_same and not statement.negated
        if ends:
            change = {"valid_to": start, "closed_by": fact}
            db.execute(tables.statements.update().where(s.id == row.id).values(**change))
            closed.append(int(row.fact_id))
    return closed
