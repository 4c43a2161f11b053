"""The judge of answers: the probability that a passage answers exactly this question.

Question and passage are read together (``language.pairs``). ``stategate train judge`` trains it on
other people's memories and questions; half have no answer, near misses among them.
"""

from collections.abc import Sequence
from functools import cache

from stategate.language.pairs import PairReader
from stategate.nodes.protocols import Embedder
from stategate.stores.assets.weights import load_arrays
from stategate.stores.memory.recall import Asked, asked_of

_LETTERS = 700  # of a passage that are read


class AnswerJudge:
    """Judges passages by checkpoint ``name``."""

    def __init__(self, name: str = "judge") -> None:
        self._reader = PairReader(*load_arrays(name, "judge"))

    def chances(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return the probability that each passage answers ``question``."""
        return self._reader.chances([(question, passage[:_LETTERS]) for passage in passages])


@cache
def shipped_judge() -> AnswerJudge:
    """Return the judge of the checkpoint that ships."""
    return AnswerJudge()


def judged_question(
    question: str, embedder: Embedder, as_of: float | None = None, at: float | None = None
) -> Asked:
    """Return a question for ``LongTerm.recall`` whose facts are judged."""
    return asked_of(question, embedder, as_of, at, shipped_judge().chances)
