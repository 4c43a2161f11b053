"""Train the reader of updates: an adapter that reads an earlier and a later statement together.

It learns from stories (``data/updates_told.jsonl``): what a person tells over a year, line by line,
with the numbers of the earlier lines that each one ends. Each line is read beside the nearest lines
that hold, as memory reads it. Stories of two other writers (``updates_development.jsonl``) choose the
epoch and calibrate the probabilities; a third one's (``updates_held_out.jsonl``) are read at the end.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Generator

from stategate.language.sentence_model import sentence_model
from stategate.language.updates import SURE
from stategate.nodes.protocols import Vector
from stategate.stores.runs import read_rows, with_errors
from stategate.trainers.adapter import PairModel, TaughtPair
from stategate.trainers.settings import UpdateSettings
from stategate.trainers.trainer import TrainingRun, area_under_curve, calibrated, file_hashes

_DATA = Path(__file__).parent / "data"
TOLD, DEVELOPMENT, HELD_OUT = (
    _DATA / f"updates_{name}.jsonl" for name in ("told", "development", "held_out")
)
_PIECES = 128  # word pieces of a pair that are read
_READ = 8  # earlier statements that memory reads beside a new one


def told_pairs(path: Path) -> list[TaughtPair]:
    """Return the pairs of stories: each line after the nearest that hold, and after what it ends."""
    pairs = []
    for _, own in groupby(read_rows(path), key=lambda row: row["story"]):
        lines = list(own)
        texts = [line["text"] for line in lines]
        vectors = sentence_model().encode(texts)
        holding: list[int] = []
        for j, line in enumerate(lines):
            near = np.argsort(-(vectors[holding] @ vectors[j]), kind="stable")[:_READ]
            for i in sorted({*(holding[place] for place in near), *line["ends"]}):
                pairs.append((texts[i], texts[j], float(i in line["ends"]), 1.0))
            holding = [i for i in holding if i not in line["ends"]] + [j]
    return pairs


def scored(model: PairModel, pairs: Sequence[TaughtPair]) -> Vector:
    """Return rows (logit, label, weight) of the pairs."""
    logits = model.logits([pair[:2] for pair in pairs])
    return np.column_stack([logits, np.array([pair[2:] for pair in pairs])])


def _figures(name: str, rows: Vector, calibration: Mapping[str, float]) -> dict[str, Any]:
    """Return a summary row: the area under the curve, the shares of pairs ended rightly and wrongly."""
    chances = expit(calibration["scale"] * rows[:, 0] + calibration["bias"])
    is_end = (chances >= SURE).astype(float)
    shares = {
        "ended": is_end[rows[:, 1] == 1].tolist(),
        "wrongly": is_end[rows[:, 1] == 0].tolist(),
    }
    return {"agent": name, "n": len(rows), "auc": area_under_curve(rows), **with_errors(shares)}


def train(settings: UpdateSettings) -> dict[str, Any]:
    """Train, calibrate, test, write the checkpoint; return the summary."""
    run = TrainingRun(settings, file_hashes(TOLD, DEVELOPMENT, HELD_OUT))
    told, chosen = told_pairs(TOLD), told_pairs(DEVELOPMENT)
    model = PairModel(settings.rank, _PIECES)

    def epoch(generator: Generator) -> list[TaughtPair]:
        """Return all that end, and another half of those that do not."""
        drawn = torch.rand(len(told), generator=generator).tolist()
        return [pair for pair, at in zip(told, drawn, strict=True) if pair[2] or at < 0.5]

    def metric() -> dict[str, float]:
        return {"auc": area_under_curve(scored(model, chosen))}

    epochs = model.fit(settings, epoch, metric)
    calibration = dict(zip(("scale", "bias"), calibrated(scored(model, chosen)), strict=True))
    figures = [_figures("held out", scored(model, told_pairs(HELD_OUT)), calibration)]
    facts = {"calibration": calibration, "epochs": epochs}
    return run.finish("update", model.architecture, model.arrays(), figures, facts)
