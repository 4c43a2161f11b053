"""Train the judge of answers: a low-rank adapter that reads a question and a passage together.

It learns from two writers' memories with questions (``data/memories.jsonl``: half have no answer,
three of four of these are near misses), from eight writers' questions about paragraphs
(``data/passages.jsonl``) and from people's about articles (SQuAD 2.0), sentence by sentence: the one
that answers, the one that seems to, another one. Every sixth memory and paragraph and the articles of
``held_out`` are left out; on them the probabilities are calibrated (Platt scaling).
"""

import gzip
import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stategate.language.sentences import sentences
from stategate.nodes.protocols import Vector
from stategate.stores.runs import read_rows
from stategate.trainers.adapter import PairModel, TaughtPair
from stategate.trainers.settings import JudgeSettings, reads_data
from stategate.trainers.trainer import TrainingRun, area_under_curve, calibrated, file_hashes

_DATA = Path(__file__).parent / "data"
MEMORIES, PASSAGES = _DATA / "memories.jsonl", _DATA / "passages.jsonl"
_PIECES = 160  # word pieces of a pair that are read
_HELD_OUT = 6  # of the memories and paragraphs, one in so many
_TESTED = 300  # held-out questions of a kind, drawn once
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


def memory_examples() -> list[list[Example]]:
    """Return the questions asked of each memory."""
    return [
        [Example(q["q"], tuple(row["memory"]), q["answer"]) for q in row["questions"]]
        for row in read_rows(MEMORIES)
    ]


@reads_data
def passage_examples(folder: Path) -> list[list[Example]]:
    """Return the questions asked of each paragraph; the paragraphs are those of ``folder``'s files."""
    texts = {}
    for file in sorted(folder.glob("*.dev.jsonl.gz")):
        for one in (document for row in read_rows(file) for document in row["documents"]):
            texts[hashlib.sha256(one["text"].encode()).hexdigest()[:16]] = one
    examples = []
    for row in read_rows(PASSAGES):
        if row["paragraph"] not in texts:
            raise ValueError(f"'{folder}' lacks a paragraph that {PASSAGES.name} asks about")
        parts = _titled(texts[row["paragraph"]]["title"], texts[row["paragraph"]]["text"])
        answered = [Example(question, parts, place) for question, place in row["answered"]]
        traps = [Example(question, parts, None, place) for question, place in row["unanswered"]]
        examples.append(answered + traps)
    return examples


def _titled(title: str, text: str) -> tuple[str, ...]:
    """Return the sentences of a text behind its title, as a document's are judged."""
    return tuple(f"{title}. {part}" for part in sentences(text))


@reads_data
def article_examples(path: Path) -> dict[str, list[Example]]:
    """Return the questions about each article, with the sentences of their paragraph."""
    articles = json.loads(gzip.decompress(path.read_bytes()))["data"]
    return {
        article["title"]: [
            _article_example(row, _titled(article["title"].replace("_", " "), paragraph["context"]))
            for paragraph in article["paragraphs"]
            for row in paragraph["qas"]
        ]
        for article in articles
    }


def _article_example(row: dict[str, Any], parts: tuple[str, ...]) -> Example:
    is_answered = not row["is_impossible"]
    answers = row.get("answers" if is_answered else "plausible_answers", ())
    text = answers[0]["text"] if answers else ""
    place = next((i for i, part in enumerate(parts) if text and text in part), None)
    return Example(row["question"], parts, *((place, None) if is_answered else (None, place)))


def pairs_of(example: Example, rng: random.Random) -> list[TaughtPair]:
    """Return the pairs that teach: what answers, what seems to, and what is of other things."""
    question, passages = example.question, example.passages
    pairs: list[TaughtPair] = []
    if example.answer is not None:
        pairs.append((question, passages[example.answer], 1.0, 1.0))
    others = [i for i in range(len(passages)) if i not in (example.answer, example.trap)]
    words = {*question.lower().split()}  # the most alike first
    others.sort(key=lambda i: (-len(words & {*passages[i].lower().split()}), rng.random()))
    if example.trap is not None:
        pairs.append((question, passages[example.trap], 0.0, 1.0))
    elif example.answer is None:
        pairs += [(question, passages[i], 0.0, 1.0) for i in others[:3]]
    else:
        chosen = others[:1] + rng.sample(others[1:], min(1, len(others[1:])))
        pairs += [(question, passages[i], 0.0, _SOFT) for i in chosen]
    return pairs


@torch.inference_mode()
def scored(model: PairModel, examples: Sequence[Example]) -> Vector:
    """Return rows (highest logit of the passages, whether one answers, 1) of the examples."""
    logits = model.logits([(one.question, text) for one in examples for text in one.passages])
    ends = np.cumsum([len(one.passages) for one in examples])
    best = [part.max(initial=-50) for part in np.split(logits, ends[:-1])]
    answerable = [float(one.answer is not None) for one in examples]
    return np.stack([best, answerable, np.ones(len(best))], axis=1)


def measured(
    model: PairModel, held: Mapping[str, Sequence[Example]]
) -> tuple[dict[str, float], Vector]:
    """Return the areas under the curve by where it is asked, and all rows, to calibrate on."""
    rows = {name: scored(model, examples) for name, examples in held.items()}
    figures = {f"auc_{name}": area_under_curve(part) for name, part in rows.items()}
    mean = float(np.mean([*figures.values()]))
    return {"auc": mean, **figures}, np.concatenate([*rows.values()])


def _sides(
    settings: JudgeSettings, rng: random.Random
) -> tuple[list[Example], dict[str, list[Example]]]:
    """Return the questions to learn from, and by where they are asked those left out."""
    memories, paragraphs = memory_examples(), passage_examples(Path(settings.paragraphs))
    articles = article_examples(Path(settings.questions))
    held = {
        "memories": [one for own in memories[::_HELD_OUT] for one in own],
        "passages": [one for own in paragraphs[::_HELD_OUT] for one in own],
        "articles": [one for name in settings.held_out for one in articles[name]],
    }
    held = {name: rng.sample(every, min(_TESTED, len(every))) for name, every in held.items()}
    learned, of_paragraphs = (
        [one for i, own in enumerate(groups) if i % _HELD_OUT for one in own]
        for groups in (memories, paragraphs)
    )
    learned = learned * _MEMORY_TIMES + of_paragraphs
    learned += [o for name, own in articles.items() if name not in settings.held_out for o in own]
    return learned, held


def train(settings: JudgeSettings) -> dict[str, Any]:
    """Train, calibrate, write the checkpoint; return the summary."""
    rng = random.Random(settings.seed)
    run = TrainingRun(settings, file_hashes(MEMORIES, PASSAGES, settings.questions))
    learned, held = _sides(settings, rng)
    pairs = [pair for one in learned for pair in pairs_of(one, rng)]
    model = PairModel(settings.rank, _PIECES)
    epochs = model.fit(settings, lambda _: pairs, lambda: measured(model, held)[0])
    figures, rows = measured(model, held)
    calibration = dict(zip(("scale", "bias"), calibrated(rows), strict=True))
    table = [{"agent": "held out", "n": len(rows), **figures}]
    facts = {"calibration": calibration, "epochs": epochs}
    return run.finish("judge", model.architecture, model.arrays(), table, facts)
