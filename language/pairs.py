"""Reads two texts together: a low-rank adapter makes a cross-encoder of the sentence model.

    PairReader(arrays, meta).chances([("Who keeps bees?", "My cousin Lena keeps bees.")])  ->  [0.97]

A linear layer compares the mean states of both texts (as InferSent does, Conneau et al. 2017); its
logits are calibrated (Platt 1999). ``stategate train judge`` makes such adapters.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stategate.language.sentence_model import sentence_model

_REMEMBERED = 8192  # pairs of which the probability is kept in this process

Pair = tuple[str, str]


class PairReader:
    """The probability that the second text stands to the first as a checkpoint was taught."""

    def __init__(self, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        arrays = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
        self._model = sentence_model().adapted(arrays)
        self._head, self._bias = arrays["head/weight"][0], arrays["head/bias"]
        self._scale, self._shift = (float(meta["calibration"][key]) for key in ("scale", "bias"))
        self._known: dict[Pair, float] = {}

    def chances(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the probability of each pair, 0 where a text is empty; some 5 ms each."""
        # Threads share a reader: the pairs that are known are replaced at once, never changed.
        known = self._known if len(self._known) < _REMEMBERED else {}
        new = dict.fromkeys((pair for pair in pairs if pair not in known), 0.0)
        if read := [pair for pair in new if all(text.strip() for text in pair)]:
            first, second = self._model.pairs(read)
            rows = np.hstack([first, second, 20 * first * second, np.abs(first - second)])
            logits = rows @ self._head + self._bias
            chances = 1 / (1 + np.exp(-(self._scale * logits + self._shift)))
            new |= zip(read, map(float, chances), strict=True)
        known = {**known, **new}
        self._known = known
        return [known[pair] for pair in pairs]
