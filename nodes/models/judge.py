"""The judge of answers: the probability that a passage answers exactly this question.

A low-rank adapter (LoRA, Hu et al. 2021) makes a cross-encoder of the sentence model: question and
passage are read together, and a linear layer compares their mean states. ``stategate train judge``
trains it on other people's memories and questions; half have no answer, near misses among them.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stategate.language.sentence_model import sentence_model
from stategate.nodes.protocols import Embedder, Vector
from stategate.stores.assets.weights import load_arrays
from stategate.stores.memory.recall import Asked, asked_of

#: The checkpoint that ships, and the embedder whose files it stands on.
SHIPPED, EMBEDDER = "judge", "all-MiniLM-L6-v2"
_LETTERS = 700  # of a passage that are read
_REMEMBERED = 4096  # pairs of which the probability is kept in this process


def compared(first: Vector, second: Vector) -> Vector:
    """Return what the last layer reads of two mean states (width,): (4 width,)."""
    return np.concatenate([first, second, 20 * first * second, np.abs(first - second)])


class AnswerJudge:
    """Judges passages by checkpoint ``name``; ``scale`` and ``bias`` calibrate its logits."""

    def __init__(self, name: str = SHIPPED) -> None:
        arrays, meta = load_arrays(name, "judge")
        self._model = sentence_model().adapted(arrays)
        self._head, self._bias = arrays["head/weight"], float(arrays["head/bias"][0])
        self._scale, self._shift = (float(meta["calibration"][key]) for key in ("scale", "bias"))
        self._chance = lru_cache(_REMEMBERED)(self._judge)

    def chances(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return the probability that each passage answers ``question``; some 10 ms each."""
        return [self._chance(question, passage[:_LETTERS]) for passage in passages]

    def _judge(self, question: str, passage: str) -> float:
        if not question.strip() or not passage.strip():
            return 0.0
        logit = float(self._head[0] @ compared(*self._model.pair(question, passage))) + self._bias
        return float(1 / (1 + np.exp(-(self._scale * logit + self._shift))))


@lru_cache(maxsize=1)
def _shipped() -> AnswerJudge:
    return AnswerJudge()


def judge_of(embedder: Embedder) -> AnswerJudge | None:
    """Return the judge that stands on the embedder's model, None where it is another model."""
    return _shipped() if embedder.name == EMBEDDER else None


def judged_question(
    question: str, embedder: Embedder, as_of: float | None = None, at: float | None = None
) -> Asked:
    """Return a question for ``LongTerm.recall``, judged where the embedder's model allows it."""
    judge = judge_of(embedder)
    return asked_of(question, embedder, as_of, at, judge.chances if judge else None)
