"""Says which earlier statements a later one ends.

    end_chances([("I live in Oslo.", "I moved to Bergen.")])  ->  [0.98]

A low-rank adapter on the sentence model reads both together (``stategate train update``).
"""

from collections.abc import Sequence

from stategate.language.pairs import pair_chances
from stategate.language.sentences import clauses

#: Probability from which a statement counts as ended: a false end denies what still holds.
SURE = 0.6


def end_chances(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return of each (earlier statement, later statement) the probability that it ends the earlier.

    All clauses of an earlier one must have ended: "I live in Oslo, and my sister is a nurse." holds in
    part when its speaker has moved.
    """
    read = [
        [(clause, later) for clause in clauses(earlier)] if earlier != later else []
        for earlier, later in pairs
    ]
    every = [pair for own in read for pair in own]
    chances = dict(zip(every, pair_chances("update", every), strict=True))
    return [min((chances[pair] for pair in own), default=0.0) for own in read]
