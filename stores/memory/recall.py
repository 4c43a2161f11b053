"""Recall: which facts answer a question, with the evidence of each signal and why the rest is left out.

Every fact gets a score by what it says (words and meaning), by what stands beside it in its
conversation (a reply makes sense with the turn that it replies to), by who said it, and by when.
Age decides between equals and forbids nothing; a fact that a later turn closed stays readable and says
so. The weights were chosen on generated conversations (``evals.memory.generated``, family ``home``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from stores.memory.search import NamespaceIndex, Scores
from stores.memory.times import Span

#: Facts from which on a place in the ranking is not worth a reason.
POOL = 100


@dataclass(frozen=True)
class Weights:
    """How much each signal counts; words and meaning are standardised over the best hundred."""

    words: float = 1.0
    meaning: float = 1.0
    beside: float = 0.3
    speaker: float = 0.5
    when: float = 0.5
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
    meaning: Scores,
    spans: Sequence[Span] = (),
    dated: Scores | None = None,
) -> Mapping[str, Scores]:
    """Return one score a fact for each signal.

    ``meaning`` are cosines (:meth:`NamespaceIndex.meaning`), ``spans`` the times that the question
    names, ``dated`` says (1 or 0) which facts tell a time, for questions that ask for one.
    """
    lexical = standard(index.words(question))
    nearness = standard(meaning)
    own = lexical + nearness
    low = f" {question.lower()} "
    names = {known.speaker for known in index.known if known.speaker}
    asked = {name for name in names if _names(name, low)}
    speaker = np.array([float(known.speaker in asked) for known in index.known])
    at = np.array([known.at for known in index.known])
    when = np.zeros(len(index))
    for span in spans:
        when = np.maximum(when, (at >= span.start) & (at < span.end))
    if dated is not None:
        when = when + dated
    ranks = np.zeros(len(index))
    if len(at) > 1:
        ranks = np.argsort(np.argsort(at, kind="stable"), kind="stable") / (len(at) - 1)
    return {
        "words": lexical,
        "meaning": nearness,
        "beside": _beside(index, own),
        "speaker": speaker,
        "when": when,
        "age": ranks,
    }


def total(parts: Mapping[str, Scores], weights: Weights = DEFAULT) -> Scores:
    """Return the weighted sum of the signals."""
    size = len(next(iter(parts.values())))
    return np.sum([getattr(weights, name) * parts[name] for name in SIGNALS], axis=0, initial=0.0) + (
        np.zeros(size)
    )


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
    before = padded[np.array(index.before, dtype=int)] if len(own) else own
    after = padded[np.array(index.after, dtype=int)] if len(own) else own
    return np.maximum(np.maximum(before, after), 0.0)


def _names(name: str, question: str) -> bool:
    """Say whether the question (lower case, between spaces) names ``name`` or its first word."""
    first = name.lower().split()[0]
    return any(f" {first}{end}" in question for end in (" ", "'", "’", "?", ",", ".", "!"))
