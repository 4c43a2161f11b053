"""Train ``utterance``: an adapter on the sentence model that classifies what a sentence is for.

| sentences | from | labels |
|---|---|---|
| generated | ``utterances_made.tsv``, by a grammar | all purposes |
| people's messages | ``people``; two scenarios are held out | question by its mark, else statement |
| people's questions | ``questions``, half of them without the mark | question |
| other writers' | ``utterances_written.tsv``, each several times | all purposes |
| short stories | ``updates_told.jsonl`` | statement |
| held out | ``utterances_held_out.tsv``, another writer's, half of them near a border | all purposes |

The best epoch is chosen on generated and people's sentences, never on held-out ones.
"""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from stategate.language.sentences import sentences
from stategate.language.utterance import PURPOSES, TOPICS
from stategate.stores.runs import read_rows
from stategate.trainers.adapter import WIDTH, AdaptedModel
from stategate.trainers.settings import UtteranceSettings, reads_data
from stategate.trainers.trainer import Figures, TrainingRun, file_hashes, in_batches

_DATA = Path(__file__).parent / "data"
MADE = _DATA / "utterances_made.tsv"
WRITTEN, HELD_OUT = _DATA / "utterances_written.tsv", _DATA / "utterances_held_out.tsv"
TOLD = _DATA / "updates_told.jsonl"
_FIRST_SHORT_STORY = 1001  # its number; short stories hold statements alone
_PIECES = 64  # word pieces of a sentence that are read
_WRITTEN_TIMES = 4  # copies of each other writer's sentence: generated ones are many more
_QUESTIONS = 300  # of people's questions that are drawn
_MAX_GREETING = 4  # words of a sentence that may be a greeting
_VALIDATION = 6  # of the sentences that are not other writers', one in so many validates


#: A purpose, the topic of a wish ("" else), and a sentence.
Example = tuple[str, str, str]


class UtteranceModel(AdaptedModel[Example]):
    """One logit a purpose and a topic, read from the mean state of a sentence."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, nn.Linear(WIDTH, len(PURPOSES) + len(TOPICS)), _PIECES)

    def forward(self, batch: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Return the logits of purposes, and of topics."""
        pieces = [self.tokenizer.encode(text) for _, _, text in batch]
        logits = self.head(self.means(pieces, [np.ones((1, len(p.ids)), bool) for p in pieces]))
        return logits[:, : len(PURPOSES)], logits[:, len(PURPOSES) :]

    def length(self, example: Example) -> int:
        """Return the length of the sentence."""
        return len(example[2])

    def loss(self, batch: Sequence[Example]) -> Tensor:
        """Return the cross-entropy of purposes, and of the topics of wishes."""
        purposes, topics = self(batch)
        loss = cross_entropy(
            purposes, torch.tensor([PURPOSES.index(purpose) for purpose, _, _ in batch])
        )
        wishes = [i for i, (_, topic, _) in enumerate(batch) if topic]
        if not wishes:
            return loss
        gold = torch.tensor([TOPICS.index(batch[i][1]) for i in wishes])
        return loss + cross_entropy(topics[wishes], gold)

    @torch.no_grad()
    def accuracy(self, examples: Sequence[Example]) -> Figures:
        """Return the accuracy of purposes, and of topics of wishes."""
        is_right: list[bool] = []
        is_topic_right: list[bool] = []
        for batch in in_batches(examples):
            purposes, topics = (part.argmax(1).tolist() for part in self(batch))
            for (purpose, topic, _), p, t in zip(batch, purposes, topics, strict=True):
                is_right.append(PURPOSES[p] == purpose)
                is_topic_right += [TOPICS[t] == topic] if topic else []
        topics_right = float(np.mean(is_topic_right)) if is_topic_right else 0.0
        return {"purposes_right": float(np.mean(is_right)), "topics_right": topics_right}


def train(settings: UtteranceSettings) -> dict[str, Any]:
    """Train, test on held-out sentences, write the checkpoint; return the summary."""
    files = (MADE, HELD_OUT, WRITTEN, TOLD, settings.people, settings.questions)
    run = TrainingRun(settings, file_hashes(*files))
    people = read_people(Path(settings.people))
    examples = read_written(MADE)
    examples += [row for scenario, row in people if scenario not in settings.held_out]
    examples += read_questions(Path(settings.questions), settings.seed)
    random.Random(settings.seed).shuffle(examples)
    validation = examples[::_VALIDATION]
    training = [example for i, example in enumerate(examples) if i % _VALIDATION]
    training += read_written(WRITTEN) * _WRITTEN_TIMES + read_told(TOLD)
    model = UtteranceModel(settings.rank)
    epochs = model.fit(settings, lambda _: training, lambda: model.accuracy(validation))
    heldout_people = [row for scenario, row in people if scenario in settings.held_out]
    figures = []
    for agent, rows in (("", read_written(HELD_OUT)), ("people's ", heldout_people)):
        for purpose in (*PURPOSES, "all"):
            if part := [row for row in rows if purpose in (row[0], "all")]:
                row = {"agent": agent + purpose, "n": len(part), **model.accuracy(part)}
                figures.append(row)
    architecture = {"purposes": list(PURPOSES), "topics": list(TOPICS), **model.architecture}
    return run.finish("utterance", architecture, model.arrays(), figures, {"epochs": epochs})


@reads_data
def read_people(path: Path) -> list[tuple[str, Example]]:
    """Return (scenario, example) of each of people's sentences, from BFCL's file.

    A sentence of few words may be a greeting or thanks: it is left out.
    """
    rows = []
    for name, conversations in json.loads(gzip.decompress(path.read_bytes())).items():
        if "_prereq_" not in name:
            continue
        turns = [turn for c in conversations for turns in c["question"] for turn in turns]
        for text in (str(turn["content"]) for turn in turns if turn["role"] == "user"):
            for sentence in sentences(text):
                if len(sentence.split()) > _MAX_GREETING:
                    purpose = "question" if sentence.endswith("?") else "statement"
                    rows.append((name.split("_")[-1].split(".")[0], (purpose, "", sentence)))
    return rows


@reads_data
def read_questions(path: Path, seed: int) -> list[Example]:
    """Return some of people's questions in SQuAD's file, half of them without the mark."""
    articles = json.loads(gzip.decompress(path.read_bytes()))["data"]
    paragraphs = (paragraph for article in articles for paragraph in article["paragraphs"])
    texts = [str(qa["question"]).strip() for paragraph in paragraphs for qa in paragraph["qas"]]
    drawn = random.Random(seed).sample(texts, min(_QUESTIONS, len(texts)))
    return [("question", "", t.rstrip("?") if i % 2 else t) for i, t in enumerate(drawn)]


def read_written(path: Path) -> list[Example]:
    """Return the sentences of a file of (purpose and topic, sentence)."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    return [(*head.partition(" ")[::2], text) for head, text in rows]


def read_told(path: Path) -> list[Example]:
    """Return the statements of short stories; a sentence of few words may be a mere exclamation."""
    texts = (row["text"] for row in read_rows(path) if row["story"] >= _FIRST_SHORT_STORY)
    parts = (part for text in texts for part in sentences(text))
    return [("statement", "", p) for p in parts if len(p.split()) > 2 and not p.endswith("?")]
