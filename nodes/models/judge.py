"""The judge of answers: the probability that a passage answers exactly this question.

Question and passage are read together (``language.pairs``). ``stategate train judge`` trains it on
other people's memories and questions; half have no answer, near misses among them.
"""

from collections.abc import Sequence
from functools import lru_cache

from stategate.language.pairs import PairReader
from stategate.nodes.protocols import Embedder
from stategate.stores.assets.weights import load_arrays
from stategate.stores.memory.recall import Asked, asked_of

#: The checkpoint that ships, and the embedder whose files it stands on.
SHIPPED, EMBEDDER = "judge", "all-MiniLM-L6-v2"
_LETTERS = 700  # of a passage that are read


class AnswerJudge:
    """Judges passages by checkpoint ``name``."""

    def __init__(self, name: str = SHIPPED) -> None:
        self._reader = PairReader(*load_arrays(name, "judge"))

    def chances(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return the probability that each passage answers ``question``."""
        return self._reader.chances([(question, passage[:_LETTERS]) for passage in passages])


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
