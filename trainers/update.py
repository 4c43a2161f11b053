"""Train the reader of updates: an adapter that reads an earlier and a later statement together.

It learns from groups of sentences by several writers (``data/updates.jsonl``). A group is about one
thing, of which a person has ``one`` value at a time (where they live) or ``many`` (their pets). It has
``old`` statements with different values, later ones that end them (``ends``; of many values each ends
its own), later ones that sound near and end nothing (``keeps``), and the old ones ``again`` in other
words.
Sentences about other things are drawn beside them. Every eighth group is left out.

What teaches most are stories (``updates_told.jsonl``): what a person tells over a year, line by line,
with the numbers of the earlier lines that each one ends. Each is read beside the nearest lines that
hold, as memory reads it. Four stories of another writer (``updates_development.jsonl``) choose the
epoch and calibrate the probabilities; a further one's (``updates_held_out.jsonl``) are read at the end.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
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
GROUPS, TOLD = _DATA / "updates.jsonl", _DATA / "updates_told.jsonl"
DEVELOPMENT, HELD_OUT = _DATA / "updates_development.jsonl", _DATA / "updates_held_out.jsonl"
_PIECES = 128  # word pieces of a pair that are read
_LEFT_OUT = 8  # of the groups, one in so many
_DRAWN = 5  # pairs of a group of each kind that are learned from in an epoch
_TOLD = ("old", "ends", "keeps", "again")  # the sentences of a group
_NEAREST = 60  # sentences about other things that count as near
_ALIKE = 0.45  # cosine of what two groups are about from which they may be about the same
_READ = 8  # earlier statements that memory reads beside a new one
_DOUBTFUL = 0.5  # weight of a pair whose label a writer did not say

Group = Mapping[str, Any]


def pairs_of(group: Group) -> Iterator[TaughtPair]:
    """Yield every pair of (earlier, later) statements of a group with its label and weight."""
    old, ends, again = group["old"], group["ends"], group["again"]
    is_one = group["kind"] == "one"
    for i, earlier in enumerate(old):
        for j, later in enumerate(ends):
            yield earlier, later, float(is_one or i == j), 1.0
            if is_one or i == j:
                yield later, earlier, 1.0, _DOUBTFUL
        for later in group["keeps"]:
            yield earlier, later, 0.0, 1.0
        for j, later in enumerate(old):
            if i != j:
                yield earlier, later, float(is_one), 1.0
        yield earlier, again[i], 0.0, 1.0
        yield again[i], earlier, 0.0, 1.0
        yield again[i], ends[i], 1.0, 1.0


class _Strangers:
    """Sentences of other groups, about other things, for each sentence of the groups."""

    def __init__(self, groups: Sequence[Group]) -> None:
        model = sentence_model()
        about = model.encode([group["about"] for group in groups])
        is_other = about @ about.T < _ALIKE
        told = [(t, i) for i, group in enumerate(groups) for name in _TOLD for t in group[name]]
        vectors = model.encode([text for text, _ in told])
        owners = np.array([i for _, i in told])
        self._near, self._far = dict[str, list[str]](), dict[str, list[str]]()
        for (text, owner), row in zip(told, vectors, strict=True):
            nearness = np.where(is_other[owner][owners], vectors @ row, -1)
            order = np.argsort(-nearness, kind="stable")[: is_other[owner][owners].sum()]
            self._near[text] = [told[i][0] for i in order[:_NEAREST]]
            self._far[text] = [told[i][0] for i in order[_NEAREST:]]

    def pairs(self, rng: random.Random) -> Iterator[TaughtPair]:
        """Yield half of the sentences as the later one, after one of the nearest or any other."""
        for text in self._near:
            if rng.random() < 0.5 and (others := rng.choice((self._near, self._far))[text]):
                yield rng.choice(others), text, 0.0, 1.0


def drawn(groups: Sequence[Group], rng: random.Random) -> list[TaughtPair]:
    """Return an epoch's pairs of ``groups``: some that end and some that do not, of each."""
    pairs = []
    for group in groups:
        every = list(pairs_of(group))
        for label in (0.0, 1.0):
            own = [pair for pair in every if pair[2] == label]
            pairs += rng.sample(own, min(_DRAWN, len(own)))
    return pairs


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
    run = TrainingRun(settings, file_hashes(GROUPS, TOLD, DEVELOPMENT, HELD_OUT))
    groups = read_rows(GROUPS)
    learned = [group for i, group in enumerate(groups) if i % _LEFT_OUT]
    left_out = drawn(groups[::_LEFT_OUT], random.Random(settings.seed))
    told, chosen, strangers = told_pairs(TOLD), told_pairs(DEVELOPMENT), _Strangers(learned)
    model = PairModel(settings.rank, _PIECES)

    def epoch(generator: Generator) -> list[TaughtPair]:
        rng = random.Random(int(torch.randint(1 << 30, (1,), generator=generator)))
        some = (pair for pair in told if pair[2] or rng.random() < 0.5)
        return [*some, *drawn(learned, rng), *strangers.pairs(rng)]

    def metric() -> dict[str, float]:
        sides = {"development": chosen, "left_out": left_out}
        areas = {f"auc_{n}": area_under_curve(scored(model, p)) for n, p in sides.items()}
        return {"auc": float(np.mean([*areas.values()])), **areas}

    epochs = model.fit(settings, epoch, metric)
    calibration = dict(zip(("scale", "bias"), calibrated(scored(model, chosen)), strict=True))
    figures = [
        _figures(name, scored(model, pairs), calibration)
        for name, pairs in (("left out", left_out), ("held out", told_pairs(HELD_OUT)))
    ]
    facts = {"calibration": calibration, "epochs": epochs}
    return run.finish("update", model.architecture, model.arrays(), figures, facts)
