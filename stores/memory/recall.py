"""Recall: which facts answer a question, with the evidence of each signal and why the rest is left out.

Every fact gets a score by what it says (words and meaning), by what stands beside it in its
conversation (a reply makes sense with the turn that it replies to), by who said it, and by when.
Age decides between equals and forbids nothing; a fact that a later turn closed stays readable and says
so. The weights were chosen on generated conversations (``evals.memory.generated``, family ``home``).
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from stategate.language.dates import Span, spans
from stategate.stores.memory.facts import as_facts, light_facts, validity, whole_facts
from stategate.stores.memory.records import Candidate, Fact, Vector
from stategate.stores.memory.search import Known, NamespaceIndex, Scores
from stategate.stores.tokens import count_tokens

#: Facts from which on a place in the ranking is not worth a reason.
POOL = 100
_ASKS_WHEN = re.compile(
    r"\b(?:when|what (?:day|date|month|year|time)|how long ago)\b", re.IGNORECASE
)
_FAILED = 0.5  # what a question that could not be answered loses
_FRAME = 12  # tokens of a line around a fact's own words: its day, who said it


@dataclass(frozen=True)
class Weights:
    """How much each signal counts; words and meaning are standardised over the best hundred."""

    words: float = 1.0
    meaning: float = 1.0
    beside: float = 0.4
    thread: float = 0.2
    speaker: float = 1.0
    when: float = 1.0
    age: float = 0.01

    @classmethod
    def parse(cls, text: str) -> "Weights":
        """Read ``words:1/meaning:.8``; what is not named keeps its default."""
        pairs = (part.split(":") for part in text.split("/") if part)
        return cls(**{name: float(value) for name, value in pairs})


DEFAULT = Weights()
SIGNALS = tuple(field.name for field in fields(Weights))


def signals(
    index: NamespaceIndex,
    question: str,
    words: Scores,
    meaning: Scores,
    named: Sequence[Span] = (),
) -> Mapping[str, Scores]:
    """Return one score a fact for each signal.

    ``words`` are BM25, ``meaning`` cosines (see ``NamespaceIndex``), ``named`` the times that the
    question names: what was said then, or tells of then, is nearer. A question that asks when is nearer
    to what tells a time.
    """
    lexical = standard(words)
    nearness = standard(meaning)
    own = lexical + nearness
    low = f" {question.lower()} "
    asked = {name for name in index.speakers if name and _names(name, low)}
    speaker = np.isin(index.column("speaker"), [index.speakers[name] for name in asked]).astype(
        float
    )
    at, start, end = index.column("at"), index.column("start"), index.column("end")
    when = np.zeros(len(index))
    for span in named:
        when = np.maximum(when, (at >= span.start) & (at < span.end))
        when = np.maximum(when, (start < span.end) & (span.start < end))
    if _ASKS_WHEN.search(question):
        when = np.maximum(when, end > start)
    ranks = np.zeros(len(index))
    if len(at) > 1:
        ranks = np.argsort(np.argsort(at, kind="stable"), kind="stable") / (len(at) - 1)
    content = index.column("content")
    return {
        "words": lexical,
        "meaning": nearness,
        "beside": content * _beside(index, own),
        "thread": _best_of_thread(index, own),
        "speaker": speaker,
        "when": when,
        "age": ranks,
    }


def total(parts: Mapping[str, Scores], weights: Weights = DEFAULT) -> Scores:
    """Return the weighted sum of the signals."""
    rows = [getattr(weights, name) * parts[name] for name in SIGNALS]
    return np.asarray(np.sum(rows, axis=0))


def standard(scores: Scores) -> Scores:
    """Return scores in deviations of the best hundred; what lies below them all is as low as the last.

    Over all facts of a long memory nearly everything is far from any question, so that deviations
    would grow with its length.
    """
    if len(scores) < 2:
        return np.zeros(len(scores))
    best = np.sort(scores)[-POOL:]
    spread = float(best.std())
    if spread < 1e-9:
        return np.zeros(len(scores))
    return np.asarray((np.maximum(scores, best[0]) - best.mean()) / spread)


def _beside(index: NamespaceIndex, own: Scores) -> Scores:
    """Return the better score of the turns before and after, 0 where they say nothing of it."""
    padded = np.append(own, 0.0)  # place -1 is the last: no neighbour
    before = padded[index.column("before").astype(int)] if len(own) else own
    after = padded[index.column("after").astype(int)] if len(own) else own
    return np.maximum(np.maximum(before, after), 0.0)


def _best_of_thread(index: NamespaceIndex, own: Scores) -> Scores:
    """Return the best score of each fact's conversation: what the talk was about."""
    best = np.full(len(index.threads), -np.inf)
    owners = index.column("thread").astype(int)
    np.maximum.at(best, owners, own)
    return np.asarray(best[owners])


def _names(name: str, question: str) -> bool:
    """Say whether the question (lower case, between spaces) names ``name`` or its first word."""
    first = next(iter(name.lower().split()), "")
    return bool(first) and any(
        f" {first}{end}" in question for end in (" ", "'", "’", "?", ",", ".", "!")
    )


@dataclass(frozen=True)
class Asked:
    """A question: its words, their vector (None: words alone), and as of when (None: now)."""

    words: str
    vector: Vector | None = None
    embedder: str = ""
    as_of: float | None = None
    at: float | None = None


@dataclass(frozen=True)
class Limits:
    """What may come back: how many facts, how many tokens of their texts, how trusted."""

    facts: int = 5
    tokens: int | None = None
    min_salience: float = 0.0
    min_trust: float = 0.0


def recalled(
    db: sa.Connection, index: NamespaceIndex, asked: Asked, limits: Limits, weights: Weights
) -> tuple[list[Fact], list[Candidate]]:
    """Return the best facts and the candidates behind them, best first."""
    if not len(index):
        return [], []
    meaning = np.full(len(index), -1.0)
    if asked.vector is not None:
        meaning = index.meaning(asked.vector, asked.embedder)
    moment = time.time() if asked.at is None else asked.at
    named = spans(asked.words, moment if asked.as_of is None else asked.as_of)
    words = index.words(asked.words)
    parts = signals(index, asked.words, words, meaning, named)
    scores = total(parts, weights)
    scores = scores - _FAILED * (1 - index.column("success"))
    order = np.lexsort((-parts["age"], -scores))
    places = [int(i) for i in order if meaning[i] > 0 or words[i] > 0]
    pool = places[:POOL]
    rows = {row.id: row for row in light_facts(db, [index.known[i].id for i in pool])}
    valid = validity(db, list(rows))
    ranked = _with_changes(pool, index, valid)
    chosen: list[int] = []
    candidates = []
    each = np.round(np.stack([parts[name] for name in SIGNALS]).T, 4)
    left = limits.tokens
    seen: set[str] = set()
    for place in ranked:
        known = index.known[place]
        row = rows.get(known.id)
        if row is None:
            continue
        reason = _reason(known, row, valid.get(known.id), asked, limits)
        plain = " ".join(f"{known.speaker} {known.text}".lower().split())
        reason = reason or ("duplicate" if plain in seen else "")
        if not reason and len(chosen) >= limits.facts:
            reason = f"number: only {limits.facts} are shown"
        if not reason and left is not None:
            size = count_tokens(known.text) + _FRAME
            if size > left:
                reason = f"budget: {size} tokens, {max(left, 0)} were left"
            else:
                left -= size
        if not reason:
            chosen.append(known.id)
            seen.add(plain)
        by_signal = dict(zip(SIGNALS, each[place].tolist(), strict=True))
        candidates.append(Candidate(known.id, known.text, float(scores[place]), by_signal, reason))
    nearness = meaning if asked.vector is not None else words
    by_id = {index.known[place].id: float(max(nearness[place], 0.0)) for place in ranked}
    whole = {row.id: row for row in whole_facts(db, chosen)}
    facts = as_facts(db, [whole[id_] for id_ in chosen], by_id)
    places = [index.place[fact.id] for fact in facts]
    shares = index.coverage(asked.words, places)
    near = np.clip(meaning[places], 0.0, 1.0) if asked.vector is not None else np.array(shares)
    support = ((near + shares) / 2).tolist() if facts else []
    return [
        replace(f, support=round(s, 4)) for f, s in zip(facts, support, strict=True)
    ], candidates


def _reason(
    known: Known,
    row: Any,
    valid: tuple[float | None, float | None, int | None] | None,
    asked: Asked,
    limits: Limits,
) -> str:
    if row.trust < limits.min_trust:
        return f"trust: {row.trust:.1f}, at least {limits.min_trust:.1f} is wanted"
    if row.salience < limits.min_salience:
        return f"salience: {row.salience:.2f}, at least {limits.min_salience:.2f} is wanted"
    if asked.as_of is not None:
        if known.at > asked.as_of:
            return "later: said after the day that is asked about"
        if valid is not None and valid[1] is not None and valid[1] <= asked.as_of:
            return f"closed: fact {valid[2]} ended it before that day"
    return ""


def _with_changes(
    pool: list[int],
    index: NamespaceIndex,
    valid: Mapping[int, tuple[float | None, float | None, int | None]],
) -> list[int]:
    """Return the places with each fact behind the one that closed it: what holds comes first."""
    ranked = list(pool)
    for place in pool:
        end = valid.get(index.known[place].id)
        closer = index.place.get(end[2]) if end is not None and end[2] is not None else None
        if closer is not None and closer in ranked and ranked.index(closer) > ranked.index(place):
            ranked.remove(closer)
            ranked.insert(ranked.index(place), closer)
    return ranked
