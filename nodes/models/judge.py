"""The judge of answers: the probability that a passage answers exactly this question.

Question and passage are read together (``language.pairs``). ``stategate train judge`` trains it on
other people's memories and questions; half have no answer, near misses among them.
"""

from collections.abc import Sequence

from stategate.language.pairs import pair_chances

_MAX_CHARACTERS = 700  # of a passage that the judge reads


def answer_chances(question: str, texts: Sequence[str], checkpoint: str = "judge") -> list[float]:
    """Return the probability that each text answers ``question``.

    The checkpoint ``judge`` reads facts of memory, ``judge-documents`` sentences of documents.
    """
    return pair_chances(checkpoint, [(question, text[:_MAX_CHARACTERS]) for text in texts])


def following_up(question: str, about: str) -> str:
    """Return a question with the words of the one that it follows up on: "How deep is it? (lake)".

    Put in front, these words would spoil the question for the judge.
    """
    return f"{question} ({about})" if about else question
