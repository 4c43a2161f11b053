"""The search index of one namespace: facts by words and by meaning, kept in this process.

It is read from the database once and then only what is new; an epoch in the database says when facts
that were there have changed (forgotten, edited, closed), and all is read again. Nothing here is a
store: whatever the database does not hold is not found.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from stategate.language.dates import spans
from stategate.stores.corpus.lexical import GrowingLexical
from stategate.stores.memory import schema as tables
from stategate.stores.memory.gate import content_of
from stategate.stores.memory.records import Namespace, Vector
from stategate.stores.memory.schema import within

Scores = NDArray[np.float64]
_K1 = 1.5
#: When it was said; the first time that it names, from and to (0: none); 1 if it was answered; how much
#: it says of its own (0 to 1); the places of its neighbours in the conversation (-1: none); who and
#: where, by number.
_COLUMNS = (
    "at",
    "start",
    "end",
    "success",
    "content",
    "before",
    "after",
    "speaker",
    "thread",
)
_READ = 2000  # letters in which a first time is looked for
_ROOM = 256  # rows that a growing matrix gets at once, at least


@dataclass(frozen=True)
class Known:
    """A fact as the index keeps it; what is asked of all at once is in columns."""

    id: int
    text: str
    speaker: str
    thread: str
    at: float
    trust: float


class NamespaceIndex:
    """Facts of one namespace, in the order in which they were written."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.epoch = -1
        self.known: list[Known] = []
        self.place: dict[int, int] = {}
        self.speakers: dict[str, int] = {"": 0}
        self.threads: dict[str, int] = {}
        self._columns: dict[str, array[float]] = {name: array("d") for name in _COLUMNS}
        self._last: dict[str, int] = {}
        self._gone: list[int] = []
        self._lexical = GrowingLexical(k1=_K1)
        self._rows: dict[str, _Rows] = {}

    def __len__(self) -> int:
        return len(self.known)

    @property
    def alive(self) -> int:
        """How many facts can be found: those that were dropped keep their places."""
        return len(self.known) - len(self._gone)

    def drop(self, ids: Sequence[int], epoch: int) -> None:
        """Find these facts no more, as of ``epoch``; once half are gone, all is read again."""
        self._gone += [self.place.pop(id_) for id_ in ids if id_ in self.place]
        self.epoch = -1 if len(self._gone) > self.alive else epoch

    def refresh(self, db: sa.Connection, namespace: Namespace, is_whole: bool = True) -> None:
        """Read what the database has and this index has not: new facts alone if not ``is_whole``."""
        e = tables.epochs.c
        epoch = db.scalar(sa.select(e.epoch).where(*within(tables.epochs, namespace))) or 0
        if is_whole and epoch != self.epoch:
            self._clear()
            self.epoch = epoch
        f, t, ft = tables.facts.c, tables.turns.c, tables.fact_turns.c
        last = self.known[-1].id if self.known else 0
        first = (
            sa.select(ft.fact_id, sa.func.min(ft.turn_id).label("turn_id"))
            .where(ft.fact_id > last)
            .group_by(ft.fact_id)
            .subquery()
        )
        query = (
            sa.select(
                f.id,
                f.question,
                f.answer,
                f.speaker,
                f.trust,
                f.success,
                f.embedder,
                f.vector,
                f.dimension,
                f.updated,
                t.thread_id,
                t.at,
            )
            .select_from(
                tables.facts.outerjoin(first, first.c.fact_id == f.id).outerjoin(
                    tables.turns, t.id == first.c.turn_id
                )
            )
            .where(*within(tables.facts, namespace), f.id > last)
            .order_by(f.id)
        )
        s = tables.statements.c
        states = (
            sa.select(s.fact_id, s.subject, s.relation, s.value)
            .where(*within(tables.statements, namespace), s.fact_id > last, s.is_state)
            .order_by(s.id)
        )
        said: dict[int, str] = {}
        for state in db.execute(states):
            fact, *words = state
            said[fact] = " ".join([said.get(fact, ""), *words])
        for row in db.execute(query):
            self._add(row, said.get(row.id, ""))

    def _add(self, row: Any, said: str) -> None:
        place = len(self.known)
        thread = row.thread_id or ""
        text = f"{row.question} {row.answer}".strip()
        at = row.updated if row.at is None else row.at
        named = spans(text[:_READ], at)
        times = (named[0].start, named[0].end) if named else (0.0, 0.0)
        self.known.append(Known(row.id, text, row.speaker, thread, at, row.trust))
        self.place[row.id] = place
        name = thread or f"\0{row.id}"  # what was said in no conversation has no neighbours
        before = self._last.get(name, -1)
        numbers = {
            "at": at,
            "start": times[0],
            "end": times[1],
            "success": float(row.success),
            "content": content_of(text, row.speaker),
            "before": before,
            "after": -1,
            "speaker": self.speakers.setdefault(row.speaker, len(self.speakers)),
            "thread": self.threads.setdefault(name, len(self.threads)),
        }
        for column, value in numbers.items():
            self._columns[column].append(value)
        if before >= 0:
            self._columns["after"][before] = place
        self._last[name] = place
        # What it states is found by the relation's words, too: "moved to" by "where does she live".
        self._lexical.add(f"{row.speaker} {text}{said}")
        values = np.frombuffer(row.vector, dtype="<f2").astype(np.float32)
        # Memories of before keep two rows (question, answer) and do not say how wide they are.
        width = row.dimension or len(values) // 2
        if width:
            self._rows.setdefault(row.embedder, _Rows(width)).add(place, values.reshape(-1, width))

    def column(self, name: str) -> Scores:
        """Return one number a fact: see :data:`_COLUMNS`."""
        return np.array(self._columns[name])

    def words(self, query: str) -> Scores:
        """Return BM25 of each fact, speaker's name included."""
        scores = self._lexical.scores(query)
        scores[self._gone] = 0.0
        return scores

    def coverage(self, query: str, places: Sequence[int]) -> list[float]:
        """Return which share of the query's words, by rarity, each fact and its neighbours hold."""
        before, after = self._columns["before"], self._columns["after"]
        groups = [[p, *(int(c[p]) for c in (before, after) if c[p] >= 0)] for p in places]
        return self._lexical.coverage(query, groups)

    def meaning(self, vector: Vector, embedder: str) -> Scores:
        """Return each fact's best cosine over its halves and sentences; -1 of another embedder's."""
        best = np.full(len(self.known), -1.0)
        rows = self._rows.get(embedder)
        if rows is not None and rows.width == len(vector):
            scores = rows.matrix @ np.asarray(vector, dtype=np.float32)
            best[rows.owners[rows.starts]] = np.maximum.reduceat(scores, rows.starts)
        best[self._gone] = -1.0
        return best

    def first_halves(self, vector: Vector, embedder: str) -> Scores:
        """Return the cosine of each fact's first vector: what was asked, or told."""
        first = np.full(len(self.known), -1.0)
        rows = self._rows.get(embedder)
        if rows is not None and rows.width == len(vector):
            places = rows.starts
            first[rows.owners[places]] = rows.matrix[places] @ np.asarray(vector, dtype=np.float32)
        first[self._gone] = -1.0
        return first


class _Rows:
    """A matrix that grows: vectors of one embedder, and the place of the fact each belongs to."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._matrix = np.zeros((_ROOM, width), dtype=np.float32)
        self._owners = np.zeros(_ROOM, dtype=np.int64)
        self._starts = array("q")
        self._count = 0

    def add(self, place: int, vectors: NDArray[np.float32]) -> None:
        if vectors.shape[1] != self.width:
            return  # of another model that took the same name: found by words alone
        end = self._count + len(vectors)
        if end > len(self._matrix):
            room = max(end, 2 * len(self._matrix))
            self._matrix = np.concatenate(
                [self._matrix, np.zeros((room - len(self._matrix), self.width), np.float32)]
            )
            self._owners = np.concatenate(
                [self._owners, np.zeros(room - len(self._owners), np.int64)]
            )
        self._matrix[self._count : end] = vectors
        self._owners[self._count : end] = place
        self._starts.append(self._count)
        self._count = end

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each fact: its rows follow one another."""
        return np.array(self._starts)

    @property
    def matrix(self) -> NDArray[np.float32]:
        return self._matrix[: self._count]

    @property
    def owners(self) -> NDArray[np.int64]:
        return self._owners[: self._count]


def packed(vectors: Sequence[Vector]) -> bytes:
    """Return vectors as the database keeps them: float16, one after another."""
    return np.stack(vectors).astype("<f2").tobytes()
