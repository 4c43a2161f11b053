"""Train the judge of answers: a low-rank adapter that reads a question and a passage together.

It learns from two writers' memories with questions (``memories.jsonl``: half have no answer, three of
four of these are near misses) and from people's questions about articles (SQuAD 2.0), sentence by
sentence: the one that answers, the one that seems to, another one. Every sixth memory and the articles
of ``held_out`` are left out; on them the probabilities are calibrated (Platt scaling).
"""

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from stategate.language.sentences import sentences
from stategate.nodes.models.judge import EMBEDDER
from stategate.stores.assets.downloads import sha256
from stategate.stores.assets.weights import save_weights
from stategate.stores.runs import provenance
from stategate.trainers.adapter import WIDTH, AdaptedModel, by_length, padded
from stategate.trainers.settings import JudgeSettings, open_run
from stategate.trainers.trainer import Figures, Trainer

MEMORIES = Path(__file__).with_name("memories.jsonl")
_PIECES = 160  # word pieces of a pair that are read
_HELD_OUT = 6  # of the memories, one in so many
_PARAGRAPHS = 240  # held-out questions about articles, drawn once
_MEMORY_TIMES = 2  # that a memory's pairs count beside the many of articles
_SOFT = 0.5  # weight of a passage that nobody took for an answer


@dataclass(frozen=True)
class Example:
    """A question, the passages that it is asked of, and the place of the one that answers, if any.

    ``trap`` is the place of one that seems to answer.
    """

    question: str
    passages: tuple[str, ...]
    answer: int | None
    trap: int | None = None


#: A question, a passage, whether it answers, and how much the pair counts.
Pair = tuple[str, str, float, float]


def memory_examples() -> list[list[Example]]:
    """Return the questions asked of each memory."""
    rows = [json.loads(line) for line in MEMORIES.read_text("utf-8").splitlines()]
    return [
        [Example(q["q"], tuple(row["memory"]), q["answer"]) for q in row["questions"]]
        for row in rows
    ]


def article_examples(path: Path) -> dict[str, list[Example]]:
    """Return the questions about each article, with the sentences of their paragraph."""
    articles = json.loads(gzip.decompress(path.read_bytes()))["data"]
    return {
        article["title"]: [
            _article_example(row, paragraph["context"])
            for paragraph in article["paragraphs"]
            for row in paragraph["qas"]
        ]
        for article in articles
    }


def _article_example(row: dict[str, Any], context: str) -> Example:
    parts = tuple(sentences(context))
    answers = row.get("plausible_answers" if row["is_impossible"] else "answers", ())
    text = answers[0]["text"] if answers else ""
    place = next((i for i, part in enumerate(parts) if text and text in part), None)
    if row["is_impossible"]:
        return Example(row["question"], parts, None, place)
    return Example(row["question"], parts, place)


def pairs_of(example: Example, rng: random.Random) -> list[Pair]:
    """Return the pairs that teach: what answers, what seems to, and what is of other things."""
    question, passages = example.question, example.passages
    pairs: list[Pair] = []
    if example.answer is not None:
        pairs.append((question, passages[example.answer], 1.0, 1.0))
    others = [i for i in range(len(passages)) if i not in (example.answer, example.trap)]
    others.sort(key=lambda i: (-_shared_words(question, passages[i]), rng.random()))
    if example.trap is not None:
        pairs.append((question, passages[example.trap], 0.0, 1.0))
    elif example.answer is None:
        pairs += [(question, passages[i], 0.0, 1.0) for i in others[:3]]
    else:
        chosen = others[:1] + rng.sample(others[1:], min(1, len(others[1:])))
        pairs += [(question, passages[i], 0.0, _SOFT) for i in chosen]
    return pairs


def _shared_words(first: str, second: str) -> int:
    return len({*first.lower().split()} & {*second.lower().split()})


class PairModel(AdaptedModel):
    """Reads a question and a passage together; its head compares their mean states."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, nn.Linear(4 * WIDTH, 1), _PIECES)

    def forward(self, texts: Sequence[tuple[str, str]]) -> Tensor:
        """Return a logit for each (question, passage)."""
        pieces = [self.tokenizer.encode(*pair) for pair in texts]
        hidden = self.states(pieces)
        there = padded([one.attention_mask for one in pieces], hidden.shape[1])
        is_second = padded([one.type_ids for one in pieces], hidden.shape[1])
        first, second = (
            (hidden * own.unsqueeze(-1)).sum(1) / own.sum(1, keepdim=True).clamp_min(1)
            for own in (there * (1 - is_second), there * is_second)
        )
        rows = torch.cat([first, second, 20 * first * second, (first - second).abs()], 1)
        logits: Tensor = self.head(rows).squeeze(1)
        return logits

    @torch.inference_mode()
    def likeliest(self, examples: Sequence[Example]) -> np.ndarray[Any, Any]:
        """Return for each example the highest logit of its passages."""
        texts = [(one.question, passage) for one in examples for passage in one.passages]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i][0]) + len(texts[i][1]))
        logits = np.zeros(len(texts))
        for start in range(0, len(order), 32):
            places = order[start : start + 32]
            logits[places] = self([texts[i] for i in places]).numpy()
        ends = np.cumsum([len(one.passages) for one in examples])
        return np.array([part.max(initial=-50) for part in np.split(logits, ends[:-1])])


@dataclass(frozen=True)
class HeldOut:
    """Questions that nothing is learned from, by where they are asked."""

    memories: Sequence[Example]
    articles: Sequence[Example]

    def measured(self, model: PairModel) -> tuple[Figures, np.ndarray[Any, Any]]:
        """Return the areas under the curve, and rows (logit, has an answer) to calibrate on."""
        rows = {name: _scored(model, examples) for name, examples in vars(self).items()}
        figures = {f"auc_{name}": _area(part) for name, part in rows.items()}
        return {"auc": float(np.mean([*figures.values()])), **figures}, np.concatenate(
            [*rows.values()]
        )


def _scored(model: PairModel, examples: Sequence[Example]) -> np.ndarray[Any, Any]:
    answerable = [one.answer is not None for one in examples]
    return np.stack([model.likeliest(examples), np.array(answerable, dtype=float)], axis=1)


def _area(rows: np.ndarray[Any, Any]) -> float:
    """Return the area under the curve: how often an answerable question is above another one."""
    from scipy.stats import mannwhitneyu

    yes, no = rows[rows[:, 1] == 1, 0], rows[rows[:, 1] == 0, 0]
    return float(mannwhitneyu(yes, no).statistic / (len(yes) * len(no)))


def calibrated(rows: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return the scale and bias of a logistic that makes probabilities of logits (Platt 1999)."""
    from scipy.optimize import minimize

    def loss(weights: np.ndarray[Any, Any]) -> float:
        logits = weights[0] * rows[:, 0] + weights[1]
        return float(np.mean(np.logaddexp(0, logits) - rows[:, 1] * logits))

    scale, bias = minimize(loss, np.array([1.0, 0.0]), method="Nelder-Mead").x
    return {"scale": float(scale), "bias": float(bias)}


def _sides(settings: JudgeSettings, rng: random.Random) -> tuple[list[Example], HeldOut]:
    """Return the questions to learn from, and those left out."""
    memories = memory_examples()
    articles = article_examples(Path(settings.questions))
    tested = [one for name in settings.held_out for one in articles[name]]
    held = HeldOut(
        [one for own in memories[::_HELD_OUT] for one in own],
        rng.sample(tested, min(_PARAGRAPHS, len(tested))),
    )
    learned = [o for i, own in enumerate(memories) if i % _HELD_OUT for o in own] * _MEMORY_TIMES
    learned += [o for name, own in articles.items() if name not in settings.held_out for o in own]
    return learned, held


def train(settings: JudgeSettings) -> dict[str, Any]:
    """Train, calibrate, write the checkpoint; return the summary."""
    torch.manual_seed(settings.seed)
    rng = random.Random(settings.seed)
    files = {"memories": sha256(MEMORIES), "questions": sha256(Path(settings.questions))}
    run = open_run(settings, {"data": files})
    learned, held = _sides(settings, rng)
    pairs = [pair for one in learned for pair in pairs_of(one, rng)]
    model = PairModel(settings.rank)
    trainer = Trainer(
        partial(_batches, pairs, settings.batch),
        model,
        partial(_loss, model),
        lambda: held.measured(model)[0],
    )
    epochs = len(trainer.fit(settings)) - 1
    figures, rows = held.measured(model)
    meta = {
        "kind": "judge",
        "architecture": {"rank": settings.rank, "model": EMBEDDER},
        "embedder": EMBEDDER,
        "calibration": calibrated(rows),
        "metrics": figures,
        "held_out": list(settings.held_out),
        "data": files,
        "epochs": epochs,
        "seed": settings.seed,
        **provenance(),
    }
    save_weights(settings.checkpoint, model.arrays(), meta)
    return run.summarise([{"agent": "held out", "n": len(rows), **figures}], [])


def _batches(pairs: Sequence[Pair], size: int, generator: Generator) -> Iterator[list[Pair]]:
    """Yield batches of pairs of like length, in random order."""
    for places in by_length([len(pair[1]) for pair in pairs], size, generator):
        yield [pairs[i] for i in places]


def _loss(model: PairModel, batch: Sequence[Pair]) -> Tensor:
    """Return the weighted cross-entropy of the pairs."""
    gold = torch.tensor([pair[2] for pair in batch])
    weight = torch.tensor([pair[3] for pair in batch])
    return binary_cross_entropy_with_logits(model([pair[:2] for pair in batch]), gold, weight)
