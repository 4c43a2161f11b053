"""Recall: which facts answer a question, with the evidence of each signal and why the rest is left out.

Every fact gets a score by what it says (words and meaning), by what stands beside it where people
talk with each other (a reply makes sense with the turn that it replies to), by who said it, and by
when. Words count as far as any fact holds the question's own; a paraphrase shares only common ones.
Recency only breaks ties; a fact that a later turn closed stays readable and says so. The weights were
chosen on generated conversations (``evals.memory.published``, family ``home``).
"""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sqlalchemy as sa

from stategate.language.dates import spans
from stategate.language.updates import end_chances
from stategate.language.utterance import read_utterance
from stategate.stores.corpus.lexical import words as stems
from stategate.stores.embeddings import Embedder, Vector
from stategate.stores.memory import schema as tables
from stategate.stores.memory.facts import read_facts
from stategate.stores.memory.index import Scores, UserIndex
from stategate.stores.memory.records import TRUSTED, Fact, Turn

#: Facts from which on a place in the ranking is not worth a reason.
POOL = 100
#: A text speaks of a fact that holds this share of its words and of the best share; else this cosine.
_SHARED, _SHARED_BEST, _NEAR = 0.5, 0.75, 0.55
_CORRECTED = 1.1  # of `corrected_fact`: its own conversation and a word, or most of the words
_ELLIPSIS = 2  # words of content of a correction that need not repeat any: "No, Tuesday."
_MAY_END = 0.2  # chance of an end that decides the order
_ANSWERS, _EQUALLY = 0.5, 0.1  # chance that answers; difference of two that answer equally well
_MATCHES = 8  # facts that one text speaks of, at most
_ASKS_WHEN = re.compile(
    r"\b(?:when|what (?:day|date|month|year|time)|how long ago)\b", re.IGNORECASE
)


#: Returns the probability that each of some passages answers a question.
Judge = Callable[[str, Sequence[str]], Sequence[float]]
_JUDGED = 8  # of the best facts: a judge reads these, the others are at most as likely as the last
_SAME_SUBJECT = 0.25  # cosine below which a judge, which reads closely, is believed less
_NEAREST = 20  # facts by words, among which the one is that holds most of the question's
_KEYWORDS = 2  # words up to which a text is no question that could be answered
#: Without a judge the probability that a fact answers is a logistic of its cosine and of the share of
#: the question's words (by rarity) that it and its neighbours hold. It tells a subject that was never
#: spoken of; what was not told of one that was, it cannot tell.
_COSINE, _SHARE, _BIAS = 3.6, 4.3, -3.6

#: How much each signal counts; words and meaning are standardised over the best hundred.
WEIGHTS = {
    "words": 1.0,
    "meaning": 1.0,
    "beside": 0.4,
    "thread": 0.2,
    "speaker": 1.0,
    "assistant": -0.5,
    "when": 1.0,
    "age": 0.01,
}


@dataclass(frozen=True)
class Asked:
    """A question: its words, their vector, and as of when (None: now)."""

    words: str
    vector: Vector
    embedder: str
    as_of: float | None = None
    at: float | None = None
    judge: Judge | None = None


def asked_of(
    question: str,
    embedder: Embedder,
    as_of: float | None = None,
    at: float | None = None,
    judge: Judge | None = None,
) -> Asked:
    """Return a question made ready to be recalled by; ``judge`` says which facts answer it."""
    return Asked(question, embedder.embed([question])[0], embedder.name, as_of, at, judge)


@dataclass(frozen=True)
class Limits:
    """What is shown: how many facts, how trusted, how likely to answer."""

    facts: int = 5
    min_trust: float = 0.0
    at_least: float = 0.0


def recalled(db: sa.Connection, index: UserIndex, asked: Asked, limits: Limits) -> list[Fact]:
    """Return the facts that may answer, best first; ``left_out`` says why one is not shown."""
    if not len(index):
        return []
    words = index.words(asked.words)
    meaning = index.meaning(asked.vector, asked.embedder)
    parts = signals(index, asked, words, meaning)
    parts["total"] = np.sum([weight * parts[name] for name, weight in WEIGHTS.items()], axis=0)
    order = np.lexsort((-parts["age"], -parts["total"]))
    ranked = [int(i) for i in order if meaning[i] > 0 or words[0][i] > 0][:POOL]
    ids = [index.ids[place] for place in ranked]
    known = {index.place[fact.id]: fact for fact in read_facts(db, tables.facts.c.id.in_(ids))}
    facts = {
        place: replace(
            known[place],
            score=float(max(meaning[place], 0.0)),
            passage=_holding(
                index.best_passage(place, asked.words, asked.vector, asked.embedder),
                known[place],
                asked.as_of,
                index,
            ),
            signals={name: round(float(row[place]), 4) for name, row in parts.items()},
        )
        for place in ranked
        if place in known  # another process may have forgotten it meanwhile
    }
    chances = _chances(index, asked, facts)
    # What ended a fact answers as likely as that fact: it says what holds instead.
    for place in sorted(facts, key=lambda place: (facts[place].valid_to or 0.0, place)):
        closer = index.place.get(facts[place].closed_by or 0, -1)
        if closer in facts:
            chances[closer] = max(chances[closer], chances[place])
    found, shown = list[Fact](), set[str]()
    for fact in _ordered([replace(fact, support=chances[place]) for place, fact in facts.items()]):
        reason = _refusal(fact, asked, limits, index, shown)
        if not reason:
            shown.add(_plain(fact))
        found.append(replace(fact, left_out=reason))
    return found


def _holding(passage: str, fact: Fact, as_of: float | None, index: UserIndex) -> str:
    """Return ``passage`` without the sentences that had ended by ``as_of``; all if none is left."""
    holding = passage
    for at, sentence, closer in fact.ended:
        if as_of is None or _was_over(at, closer, as_of, index):
            holding = holding.replace(sentence, "")
    return " ".join(holding.split()) if holding.strip() else passage


def _chances(index: UserIndex, asked: Asked, facts: Mapping[int, Fact]) -> dict[int, float]:
    """Return how likely each fact answers: by the judge where there is one, and a question."""
    shares = index.coverage(asked.words, list(facts), _take_turns(index))
    chances = {
        place: answer_chance(min(fact.score, 1.0), share)
        for (place, fact), share in zip(facts.items(), shares, strict=True)
    }
    if asked.judge is None or is_keywords(asked.words):
        return chances
    best = list(facts)[:_JUDGED]
    told = [_as_told(facts[place]) for place in best]
    judged = [
        round(chance * min(1.0, facts[place].score / _SAME_SUBJECT), 4)
        for place, chance in zip(best, asked.judge(asked.words, told), strict=True)
    ]
    least = min(judged, default=1.0)
    others = {place: min(chance, least) for place, chance in chances.items()}
    return others | dict(zip(best, judged, strict=True))


def _as_told(fact: Fact) -> str:
    """Return a fact's passage under the name of who said it, as a judge reads it."""
    is_named = fact.speaker and fact.speaker.lower() != "user"
    return f"{fact.speaker}: {fact.passage}" if is_named else fact.passage


def _best(db: sa.Connection, index: UserIndex, asked: Asked) -> list[Fact]:
    """Return the facts among which the one is that a text speaks of."""
    found = recalled(db, index, asked, Limits(facts=_MATCHES))
    return [fact for fact in found if not fact.left_out]


def matching_facts(db: sa.Connection, index: UserIndex, asked: Asked) -> list[Fact]:
    """Return the facts that a text speaks of, best first: those that share its words or its meaning.

    ``asked.words`` are words of content. A fact matches if it holds at least half of them, and
    nearly as many as the best one; where none does, the nearest in meaning.
    """
    facts = _best(db, index, asked)
    terms = set(stems(asked.words))
    shares = [len(terms & set(stems(fact.text))) / max(len(terms), 1) for fact in facts]
    best = max(shares, default=0.0)
    if best >= _SHARED:
        return [f for f, share in zip(facts, shares, strict=True) if share >= _SHARED_BEST * best]
    return [fact for fact in facts if fact.score >= _NEAR]


def corrected_fact(
    db: sa.Connection, user: str, index: UserIndex, asked: Asked, turn: Turn
) -> int | None:
    """Return the fact that ``turn``, a correction, speaks of, None where none is near enough.

    The score adds the share of its words that a fact holds, the cosine, and whether the fact is of
    the same conversation, or the speaker's last one there, which a longer correction must share a word
    with. Without a thread only that last one is of the same conversation. What others said counts
    where the speaker said nothing of it.
    """
    facts = _best(db, index, asked)
    f, thread = tables.facts.c, turn.thread_id
    own = (f.user == user, f.thread_id == thread, f.speaker == turn.speaker)
    is_known = f.id <= max(index.place, default=0)  # the correction itself is not
    last = db.scalar(sa.select(sa.func.max(f.id)).where(*own, f.source == "user", is_known))
    if last is not None and last not in [fact.id for fact in facts]:
        facts += read_facts(db, f.id == last)
    terms = set(stems(asked.words))
    scores = dict[int, tuple[bool, float]]()
    for fact in facts:
        if fact.trust >= TRUSTED and fact.valid_to is None:
            share = len(terms & set(stems(fact.text))) / max(len(terms), 1)
            is_same = thread == fact.thread_id if thread else fact.id == last
            is_meant = fact.id == last and (share > 0 or len(terms) <= _ELLIPSIS)
            score = (share + is_same + is_meant) / 2 + fact.score
            if score >= _CORRECTED:
                is_own = fact.source == "user" and fact.speaker == turn.speaker and share > 0
                scores[fact.id] = (is_own, score)
    return max(scores, key=lambda number: scores[number], default=None)


def is_keywords(text: str) -> bool:
    """Say whether ``text`` is no question that a judge can read: a few words, or small talk."""
    return len(text.split()) <= _KEYWORDS or read_utterance(text).purpose == "other"


def answer_chance(cosine: float, share: float) -> float:
    """Return the probability that a fact answers, of its cosine and its share of the asked words."""
    return round(float(1 / (1 + np.exp(-(_COSINE * cosine + _SHARE * share + _BIAS)))), 4)


def _refusal(
    fact: Fact, asked: Asked, limits: Limits, index: UserIndex, shown: Collection[str]
) -> str:
    """Return why a fact is left out, "" if it is shown; ``shown`` are the words of better ones."""
    if fact.trust < limits.min_trust:
        return f"trust: {fact.trust:.1f}, at least {limits.min_trust:.1f} is wanted"
    if fact.support < limits.at_least:
        return (
            f"chance: {fact.support:.2f} that it answers, at least {limits.at_least:.2f} is wanted"
        )
    if asked.as_of is not None and fact.at > asked.as_of:
        return "later: said after the day that is asked about"
    by = fact.closed_by
    if asked.as_of is not None and _was_over(fact.valid_to, by, asked.as_of, index):
        return f"closed: fact {by} ended it before that day"
    if _plain(fact) in shown:
        return "duplicate: the same is shown already"
    if len(shown) >= limits.facts:
        return f"number: only the best {limits.facts} are shown"
    return ""


def _plain(fact: Fact) -> str:
    """Return the words of a fact and who said them, however they are spaced."""
    return " ".join(f"{fact.speaker} {fact.text}".lower().split())


def _was_over(end: float | None, closer: int | None, as_of: float, index: UserIndex) -> bool:
    """Say whether by ``as_of`` the ``end`` had come, and the fact that ended it had been told."""
    place = index.place.get(closer or 0)
    is_told = place is None or index.columns["at"][place] <= as_of
    return is_told and end is not None and end <= as_of


def signals(
    index: UserIndex, asked: Asked, words: tuple[Scores, Scores], meaning: Scores
) -> dict[str, Scores]:
    """Return one score a fact for each signal.

    ``words`` are BM25 of facts and of their best passages, ``meaning`` cosines (see
    ``UserIndex``). What was said at a time that the question names, or tells of then, is nearer. A
    question that asks when is nearer to what tells a time.
    """
    question = asked.words
    nearest = [int(place) for place in np.argsort(-words[0], kind="stable")[:_NEAREST]]
    turns = _take_turns(index)
    share = max(index.coverage(question, nearest, turns), default=0.0)
    lexical = share * (standard(words[0]) + standard(words[1])) / 2
    nearness = standard(meaning)
    own = lexical + nearness
    low = f" {question.lower()} "
    speakers = [number for name, number in index.speakers.items() if name and _is_named(name, low)]
    at, start, end = index.column("at"), index.column("start"), index.column("end")
    when = np.zeros(len(index))
    moment = asked.as_of if asked.as_of is not None else asked.at
    for span in spans(question, time.time() if moment is None else moment):
        when = np.maximum(when, (at >= span.start) & (at < span.end))
        when = np.maximum(when, (start < span.end) & (span.start < end))
    if _ASKS_WHEN.search(question):
        when = np.maximum(when, end > start)
    assistant = index.speakers.get("assistant", -1)
    ranks = np.argsort(np.argsort(at, kind="stable"), kind="stable") / max(len(at) - 1, 1)
    return {
        "words": lexical,
        "meaning": nearness,
        "beside": index.column("content") * turns * _neighbour_scores(index, own),
        "thread": _best_of_thread(index, own),
        "speaker": np.isin(index.column("speaker"), speakers).astype(float),
        "assistant": (index.column("speaker") == assistant).astype(float),
        "when": when,
        "age": ranks,
    }


def standard(scores: Scores) -> Scores:
    """Return scores in deviations of the best hundred; what lies below them all is as low as the last.

    Over all facts of a long memory nearly everything is far from any question, so that deviations
    would grow with its length.
    """
    best = np.sort(scores)[-POOL:]
    spread = float(best.std())
    if spread < 1e-9:
        return np.zeros(len(scores))
    return np.asarray((np.maximum(scores, best[0]) - best.mean()) / spread)


def _neighbour_scores(index: UserIndex, own: Scores) -> Scores:
    """Return the better score of the turns before and after, 0 where they say nothing of it."""
    padded = np.append(own, 0.0)  # place -1 is the last: no neighbour
    before, after = (padded[index.column(name).astype(int)] for name in ("before", "after"))
    return np.asarray(np.maximum(np.maximum(before, after), 0.0))


def _take_turns(index: UserIndex) -> Scores:
    """Return 1 for facts of conversations with several speakers, 0 for one person's own notes."""
    threads, speakers = (index.column(name).astype(int) for name in ("thread", "speaker"))
    first = np.zeros(len(index.threads), int)
    first[threads[::-1]] = speakers[::-1]
    others = np.bincount(threads, speakers != first[threads], minlength=len(first))
    return np.asarray(others[threads] > 0, float)


def _best_of_thread(index: UserIndex, own: Scores) -> Scores:
    """Return the best score of each fact's conversation: what the talk was about."""
    best = np.full(len(index.threads), -np.inf)
    owners = index.column("thread").astype(int)
    np.maximum.at(best, owners, own)
    return np.asarray(best[owners])


def _is_named(name: str, question: str) -> bool:
    """Say whether the question (lower case, between spaces) names ``name`` or its first word."""
    first = next(iter(name.lower().split()), "")
    return bool(first) and any(
        f" {first}{end}" in question for end in (" ", "'", "’", "?", ",", ".", "!")
    )


def _ordered(ranked: Sequence[Fact]) -> list[Fact]:
    """Return the facts with each behind what is to be believed in its stead."""
    order = list[Fact]()
    for fact in ranked:
        behind = (i for i, other in enumerate(order) if _is_before(fact, other))
        order.insert(next(behind, len(order)), fact)
    return order


def _is_before(fact: Fact, other: Fact) -> bool:
    """Say whether ``fact`` ended ``other``, is trusted more, or is newer and may have ended it.

    More trust counts between facts of the same: the trusted one is at least half as likely to answer.
    A doubtful end counts between facts of one speaker that answer nearly as well, the end of a part
    where what ended it answers as well.
    """
    if other.trust < TRUSTED <= fact.trust and fact.support >= other.support / 2:
        return True
    ended_part = any(closer == fact.id for *_, closer in other.ended)
    if other.closed_by == fact.id or (ended_part and fact.support >= other.support):
        return True
    is_newer = (fact.speaker, fact.trust) == (other.speaker, other.trust) and fact.at > other.at
    is_equal = min(fact.support, other.support) >= _ANSWERS
    is_equal = is_equal and abs(fact.support - other.support) <= _EQUALLY
    may_end = is_newer and is_equal and other.valid_to is None
    return may_end and end_chances([(other.text, fact.text)])[0] >= _MAY_END
