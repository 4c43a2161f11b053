"""Reads two texts together: a low-rank adapter makes a cross-encoder of the sentence model.

    pair_chances("judge", [("Who keeps bees?", "My cousin Lena keeps bees.")])  ->  [0.97]

A linear layer compares the mean states of both texts (as InferSent does, Conneau et al. 2017); its
logits are calibrated (Platt 1999). ``stategate train judge`` makes such adapters.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stategate.language.instruction.weights import load_checkpoint
from stategate.language.sentence_model import adapted_model


def pair_chances(checkpoint: str | Path, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the probability that each second text stands to its first as a checkpoint was taught.

    It is 0 where a text is empty. A pair takes some 5 ms.
    """
    chances = dict.fromkeys(pairs, 0.0)
    if read := [pair for pair in chances if all(text.strip() for text in pair)]:
        model, weight, bias = adapted_model(checkpoint)
        calibration = load_checkpoint(checkpoint)[1]["calibration"]
        first, second = model.pairs(read)
        rows = np.hstack([first, second, 20 * first * second, np.abs(first - second)])
        logits = calibration["scale"] * (rows @ weight[0] + bias) + calibration["bias"]
        chances |= zip(read, map(float, 1 / (1 + np.exp(-logits))), strict=True)
    return [chances[pair] for pair in pairs]
