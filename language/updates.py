"""Says which earlier statements a later one ends.

    ends([("I live in Oslo.", "We moved to Bergen.")])  ->  [True]

A low-rank adapter on the sentence model reads both together (``stategate train update``).
"""

from collections.abc import Sequence
from pathlib import Path

from stategate.language.pairs import pair_reader

CHECKPOINT = Path(__file__).parents[1] / "checkpoints" / "update"
#: Probability from which a statement counts as ended: a false end hides what still holds.
SURE = 0.8


def ends(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Return of each (earlier statement, later statement) whether the later one ends the earlier."""
    own = [pair for pair in pairs if pair[0] != pair[1]]
    chances = dict(zip(own, pair_reader(CHECKPOINT).chances(own), strict=True))
    return [chances.get(pair, 0.0) >= SURE for pair in pairs]
