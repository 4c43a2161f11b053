"""Train the judge of answers, and the readers of updates and utterances: classifiers of sentences.

An adapter reads a text, or two together, and gives each one of some classes. Rows (``adapter.Row``)
come from files of JSON lines and from people's data (``trainers.people``). Those of the split "train"
teach; those of the splits ``settings.validation`` choose the epoch and, for pairs, calibrate the
probability of "yes" (Platt scaling). All splits but "train" are tested.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Generator, Tensor, nn

from stategate.language.utterance import PURPOSES, TOPICS
from stategate.nodes.protocols import Vector
from stategate.stores.errors import UserError
from stategate.stores.runs import read_rows, with_errors
from stategate.trainers.adapter import DATA, WIDTH, AdaptedModel, Example, Row, length_of
from stategate.trainers.people import paragraphs_of, people_rows
from stategate.trainers.settings import ClassifierSettings, reads_data
from stategate.trainers.trainer import (
    Figures,
    TrainingRun,
    area_under_curve,
    calibrated,
    file_hashes,
    in_batches,
)

_PIECES = 160  # word pieces of a row that are read
_PAIR: Mapping[str, Sequence[str]] = {"pairs": ("no", "yes")}
#: The heads of each kind and their classes; a label names one of each head, or of the first alone.
HEADS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "judge": _PAIR,
    "update": _PAIR,
    "utterance": {"purposes": PURPOSES, "topics": TOPICS},
}
#: Rows as they are scored: the class of each head (-1 for none), and the logits of all classes.
Scored = tuple[NDArray[np.int64], NDArray[np.float64]]


def places_of(kind: str, label: str) -> list[int]:
    """Return the class of each head that a label names, -1 for a head without one."""
    words, heads = label.split() or [""], [*HEADS[kind].values()]
    if len(words) > len(heads) or any(word not in heads[i] for i, word in enumerate(words)):
        raise ValueError(f"'{label}' is no label of '{kind}'")
    return [heads[i].index(word) for i, word in enumerate(words)] + [-1] * (len(heads) - len(words))


class Classifier(AdaptedModel):
    """Reads a text as its mean state; of a pair the head compares both means (``language.pairs``)."""

    def __init__(self, kind: str, rank: int) -> None:
        self.kind, self.heads, self.is_pair = kind, HEADS[kind], HEADS[kind] is _PAIR
        sizes = [len(classes) for classes in self.heads.values()]
        head = nn.Linear(4 * WIDTH, 1) if self.is_pair else nn.Linear(WIDTH, sum(sizes))
        super().__init__(rank, head, _PIECES, sizes)

    def example(self, row: Row) -> Example:
        """Return a row as the model reads it."""
        classes = np.array([places_of(self.kind, row.label)])
        if self.is_pair:
            pieces = self.tokenizer.encode(row.text, row.second)
            masks = np.equal.outer([0, 1], pieces.type_ids)
        else:
            pieces = self.tokenizer.encode(row.text)
            masks = np.ones((1, len(pieces.ids)), bool)
        return Example(pieces, masks, classes, np.ones(1, np.float32))

    def forward(self, examples: Sequence[Example]) -> Tensor:
        """Return the logits of each row; a pair's are 0 for "no", and the head's for "yes"."""
        if not self.is_pair:
            return super().forward(examples)
        first, second = self.means(examples).view(-1, 2, WIDTH).unbind(1)
        rows = torch.cat([first, second, 20 * first * second, (first - second).abs()], 1)
        return nn.functional.pad(self.head(rows), (1, 0))

    @torch.inference_mode()
    def scored(self, rows: Sequence[Row]) -> Scored:
        """Return the classes and logits of rows; of a group the row that is most probably "yes"."""
        order = sorted(range(len(rows)), key=lambda i: length_of(rows[i]))
        gold = np.zeros((len(rows), len(self.sizes)), np.int64)
        logits = np.zeros((len(rows), sum(self.sizes)))
        for batch in in_batches(order):
            examples = [self.example(rows[i]) for i in batch]
            logits[batch] = self(examples).numpy()
            gold[batch] = np.concatenate([example.classes for example in examples])
        groups: dict[str, list[int]] = {}
        for i, row in enumerate(rows):
            groups.setdefault(row.group or str(i), []).append(i)
        best = [max(own, key=lambda i: logits[i, -1]) for own in groups.values()]
        return np.array([gold[own].max(0) for own in groups.values()]), logits[best]

    def figures(self, rows: Sequence[Row]) -> Figures:
        """Return the area under the curve of pairs, or the accuracy of each head."""
        gold, logits = self.scored(rows)
        if self.is_pair:
            return {"auc": area_under_curve(_weighed(gold, logits))}
        ends = np.cumsum(self.sizes)[:-1]
        right = {}
        for name, part, classes in zip(self.heads, np.split(logits, ends, 1), gold.T, strict=True):
            hits = (part.argmax(1) == classes)[classes >= 0]
            right[f"{name}_right"] = float(hits.mean()) if len(hits) else 0.0
        return right


def _weighed(gold: NDArray[np.int64], logits: NDArray[np.float64]) -> Vector:
    """Return rows (logit, label, weight) of pairs; their weights sum to 1."""
    return np.column_stack([logits[:, 1], gold[:, 0], np.full(len(gold), 1 / len(gold))])


def read_data(settings: ClassifierSettings) -> dict[str, list[Row]]:
    """Return the rows of each split. Raises ``UserError`` for a missing file, or a wrong row."""
    splits: dict[str, list[Row]] = {split: [] for split in ("train", *settings.validation)}
    paragraphs = paragraphs_of(settings.paragraphs) if settings.paragraphs else {}
    rows = [*people_rows(settings)]
    for path in map(path_of, settings.data):
        with reads_data("data", path):
            for fields in read_rows(path):
                if name := fields.pop("paragraph", ""):
                    fields["second"] = paragraphs[name]
                rows.append(Row(**fields))
                places_of(settings.kind, rows[-1].label)
    for row in rows:
        splits.setdefault(row.split, []).append(row)
    if empty := [split for split, own in splits.items() if not own]:
        raise UserError(f"there is no row of the split '{empty[0]}': name data that have some")
    return splits


def path_of(name: str) -> Path:
    """Return the file ``name`` of ours, or else the path that a person names."""
    return DATA / name if (DATA / name).exists() else Path(name)


def drawn_rows(rows: Sequence[Row], generator: Generator) -> list[Row]:
    """Return an epoch's rows: each as often as its weight says, on average."""
    parts = torch.rand(len(rows), generator=generator).tolist()
    drawn = zip(rows, parts, strict=True)
    return [row for row, part in drawn for _ in range(int(row.weight + part))]


def train(settings: ClassifierSettings) -> dict[str, Any]:
    """Train, calibrate, test, write the checkpoint; return the summary."""
    files: list[str | Path] = [*map(path_of, settings.data), settings.people, settings.questions]
    splits = read_data(settings)
    run = TrainingRun(settings, file_hashes(*files))
    model = Classifier(settings.kind, settings.rank)
    chosen = {split: splits[split] for split in settings.validation}
    epochs = model.fit(
        settings, partial(drawn_rows, splits["train"]), partial(model.validated, chosen)
    )
    facts: dict[str, Any] = {"epochs": epochs}
    tested = {split: rows for split, rows in splits.items() if split != "train"}
    if model.is_pair:
        scored = np.concatenate([_weighed(*model.scored(rows)) for rows in chosen.values()])
        scale, bias = calibrated(scored)
        facts["calibration"] = {"scale": scale, "bias": bias}
        table = [
            _pair_row(split, *model.scored(rows), (scale, bias), settings.sure)
            for split, rows in tested.items()
        ]
    else:
        table = [row for split, rows in tested.items() for row in _class_rows(model, split, rows)]
    heads = {name: list(classes) for name, classes in model.heads.items()}
    architecture = {**heads, **model.architecture}
    return run.finish(settings.kind, architecture, model.arrays(), table, facts)


def _pair_row(
    split: str,
    gold: NDArray[np.int64],
    logits: NDArray[np.float64],
    calibration: tuple[float, float],
    sure: float,
) -> dict[str, Any]:
    """Return a summary row: the area under the curve, the shares of pairs that are ``sure``."""
    scale, bias = calibration
    is_sure = (expit(scale * logits[:, 1] + bias) >= sure).astype(float)
    shares = {
        name: is_sure[gold[:, 0] == i].tolist() for i, name in enumerate(("wrongly", "rightly"))
    }
    auc = area_under_curve(_weighed(gold, logits))
    return {"agent": split, "n": len(gold), "auc": auc, **with_errors(shares)}


def _class_rows(model: Classifier, split: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the summary rows of a split: of each class of the first head, and of all."""
    parts = {name: [r for r in rows if r.label.split()[0] == name] for name in PURPOSES}
    return [
        {"agent": f"{split}, {name}", "n": len(part), **model.figures(part)}
        for name, part in {**parts, "all": rows}.items()
        if part
    ]
