"""The search index of one user: facts by words and by meaning, kept in this process.

It is read from the database once and then only what is new; where facts were forgotten, all is read
again. Nothing here is a store:
whatever the database does not hold is not found.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from stategate.language.dates import spans
from stategate.language.sentences import passages
from stategate.stores.corpus.lexical import Lexical
from stategate.stores.embeddings import Vector
from stategate.stores.memory import schema as tables
from stategate.stores.memory.facts import standalone
from stategate.stores.memory.records import Turn
from stategate.stores.memory.statements import content_share

Scores = NDArray[np.float64]
#: When it was said; the first time that it names, from and to (0: none); how much it says of its own
#: (0 to 1); the places of its neighbours in the conversation (-1: none); who and where, by number.
_COLUMNS = ("at", "start", "end", "content", "before", "after", "speaker", "thread")
_K1 = 1.5  # saturation of a word's frequency
_READ = 2000  # letters in which a first time is looked for


class UserIndex:
    """Facts of one user, in the order in which they were written."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.ids: list[int] = []
        self.place: dict[int, int] = {}
        self.speakers: dict[str, int] = {"": 0}
        self.threads: dict[str, int] = {}
        self.columns: dict[str, array[float]] = {name: array("d") for name in _COLUMNS}
        self._last: dict[str, int] = {}
        self._lexical = Lexical(k1=_K1, repeats=False)
        self._by_passage = Lexical(k1=_K1, repeats=False)
        #: Of each fact its passages, and the number of its first one.
        self._passages: list[tuple[str, ...]] = []
        self._first_passage = array("q")
        #: By embedder and width: the vectors of each place, and all in one matrix while none is new.
        self._rows: dict[tuple[str, int], dict[int, Vector]] = {}
        self._matrices: dict[tuple[str, int], Vector] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def refresh(self, db: sa.Connection, user: str) -> None:
        """Read what the database has and this index has not.

        Facts never change and no number is given twice: a lower count says that some were forgotten.
        """
        f, own = tables.facts.c, tables.facts.c.user == user
        last = self.ids[-1] if self.ids else 0
        kept = sa.select(sa.func.count()).select_from(tables.facts).where(own, f.id <= last)
        if db.scalar(kept) != len(self):
            self._clear()
            last = 0
        for row in db.execute(sa.select(tables.facts).where(own, f.id > last).order_by(f.id)):
            self._add(row)

    def _add(self, row: Any) -> None:
        place = len(self)
        text = standalone(row.text, row.about)
        named = spans(text[:_READ], row.at)
        times = (named[0].start, named[0].end) if named else (0.0, 0.0)
        self.ids.append(row.id)
        self.place[row.id] = place
        name = row.thread_id or f"\0{row.id}"  # what was said in no conversation has no neighbours
        before = self._last.get(name, -1)
        numbers = {
            "at": row.at,
            "start": times[0],
            "end": times[1],
            "content": content_share(text, row.speaker),
            "before": before,
            "after": -1,
            "speaker": self.speakers.setdefault(row.speaker, len(self.speakers)),
            "thread": self.threads.setdefault(name, len(self.threads)),
        }
        for column, value in numbers.items():
            self.columns[column].append(value)
        if before >= 0:
            self.columns["after"][before] = place
        self._last[name] = place
        self._lexical.add(f"{row.speaker} {text}")
        self._passages.append(tuple(passages(text)) or (text,))
        self._first_passage.append(len(self._by_passage))
        for part in self._passages[place]:
            self._by_passage.add(f"{row.speaker} {part}")
        make = (row.embedder, row.dimension)
        values = np.frombuffer(row.vector, dtype="<f2").astype(np.float32)
        self._rows.setdefault(make, {})[place] = values.reshape(-1, row.dimension)
        self._matrices.pop(make, None)

    def near(self, turn: Turn, count: int) -> list[int]:
        """Return the ``count`` facts of a turn's speaker that are nearest to any part of it."""
        vectors = (turn.vector, *turn.more)
        scores = np.max([self.meaning(vector, turn.embedder) for vector in vectors], axis=0)
        own = self.column("speaker") == self.speakers.get(turn.speaker, -1)
        order = np.argsort(-np.where(own, scores, -1.0), kind="stable")[:count]
        return [self.ids[place] for place in order if own[place] and scores[place] > 0]

    def column(self, name: str) -> Scores:
        """Return one number a fact: see :data:`_COLUMNS`."""
        return np.array(self.columns[name])

    def words(self, query: str) -> tuple[Scores, Scores]:
        """Return BM25 of each fact, and of its best passage, speaker's name included."""
        first = np.array(self._first_passage)
        best = np.maximum.reduceat(self._by_passage.scores(query), first)
        return self._lexical.scores(query), best

    def best_passage(self, place: int, asked: str, vector: Vector, embedder: str) -> str:
        """Return the passage of a fact that is nearest to a question, in words and meaning."""
        parts = self._passages[place]
        if len(parts) == 1:
            return parts[0]
        groups = [[self._first_passage[place] + i] for i in range(len(parts))]
        scores = np.array(self._by_passage.coverage(asked, groups))
        own = self._rows.get((embedder, len(vector)), {}).get(place)
        # The whole text's vector comes first, then one a passage (``remember.texts_of``).
        if own is not None and len(own) > len(parts):
            scores = scores + own[1 : 1 + len(parts)] @ np.asarray(vector, np.float32)
        return parts[int(scores.argmax())]

    def coverage(self, query: str, places: Sequence[int], beside: Scores) -> list[float]:
        """Return the share of the query's words, by rarity, of facts and neighbours ``beside`` them."""
        columns = (self.columns["before"], self.columns["after"])
        groups = [[p, *(int(c[p]) for c in columns if c[p] >= 0 and beside[p])] for p in places]
        return self._lexical.coverage(query, groups)

    def meaning(self, vector: Vector, embedder: str) -> Scores:
        """Return each fact's best cosine over all of it and its sentences; -1 of another embedder's."""
        best = np.full(len(self), -1.0)
        make = (embedder, len(vector))
        if rows := self._rows.get(make):
            if make not in self._matrices:
                self._matrices[make] = np.concatenate(list(rows.values()))
            scores = self._matrices[make] @ np.asarray(vector, dtype=np.float32)
            starts = np.cumsum([0, *map(len, rows.values())][:-1])
            best[list(rows)] = np.maximum.reduceat(scores, starts)
        return best
