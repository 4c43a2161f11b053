"""Train the reader of utterances, an adapter on the sentence model, on made and on people's sentences.

Most are made of a grammar (``utterances.yaml``). In people's messages (``people``) a sentence with a
question mark is a question, any other a statement; two scenarios of them are held out. People's
``questions`` are added, half of them without the mark, what other writers wrote
(``utterances_written.tsv``), each sentence several times beside the many made ones, and what people
tell in short stories (``updates_told.jsonl``): statements that share words with all other purposes.
``utterances_held_out.tsv`` is another writer's; half of its sentences are near the border of another
purpose. Nothing is chosen by what is held out.
"""

import gzip
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from stategate.language.sentences import sentences
from stategate.language.utterance import PURPOSES, TOPICS
from stategate.stores.files import read_yaml
from stategate.stores.runs import read_rows
from stategate.trainers.adapter import WIDTH, AdaptedModel
from stategate.trainers.instruction.recombined import english_words
from stategate.trainers.settings import UtteranceSettings, reads_data
from stategate.trainers.trainer import Figures, TrainingRun, file_hashes, in_parts

_DATA = Path(__file__).parent / "data"
GRAMMAR = _DATA / "utterances.yaml"
WRITTEN, HELD_OUT = _DATA / "utterances_written.tsv", _DATA / "utterances_held_out.tsv"
TOLD = _DATA / "updates_told.jsonl"
_SHORT = 1001  # number of the first of the short stories, in which nothing is wished or asked back
_PIECES = 64  # word pieces of a sentence that are read
_WRITTEN_TIMES = 4  # that each sentence of another writer counts
_CHOICE = re.compile(r"\[([^\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_OPENINGS = ("By the way, ", "Hi, ", "Oh and ", "One more thing: ", "Also, ", "So, ", "Well, ")
#: Slots that name things, and the share of them that any English word fills: no thing says a purpose.
_NAMING, _ANY_WORD = ("thing", "who"), 0.3
_FEW = 4  # words of a sentence that may be a greeting
_CHOOSING = 6  # of the made sentences, one in so many decides which epoch is kept


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
        loss = cross_entropy(purposes, torch.tensor([PURPOSES.index(one[0]) for one in batch]))
        wishes = [i for i, one in enumerate(batch) if one[1]]
        if not wishes:
            return loss
        gold = torch.tensor([TOPICS.index(batch[i][1]) for i in wishes])
        return loss + cross_entropy(topics[wishes], gold)

    @torch.no_grad()
    def right(self, examples: Sequence[Example]) -> Figures:
        """Return the shares of purposes, and of topics of wishes, that are right."""
        is_right: list[bool] = []
        is_topic_right: list[bool] = []
        for batch in in_parts(examples):
            purposes, topics = (part.argmax(1).tolist() for part in self(batch))
            for (purpose, topic, _), p, t in zip(batch, purposes, topics, strict=True):
                is_right.append(PURPOSES[p] == purpose)
                is_topic_right += [TOPICS[t] == topic] if topic else []
        topics_right = float(np.mean(is_topic_right)) if is_topic_right else 0.0
        return {"purposes_right": float(np.mean(is_right)), "topics_right": topics_right}


def train(settings: UtteranceSettings) -> dict[str, Any]:
    """Train, test on another writer's sentences, write the checkpoint; return the summary."""
    files = (GRAMMAR, HELD_OUT, WRITTEN, TOLD, settings.people, settings.questions)
    run = TrainingRun(settings, file_hashes(*files))
    people = read_people(Path(settings.people))
    every = made_sentences(settings.sentences, settings.seed)
    every += [row for scenario, row in people if scenario not in settings.held_out]
    every += read_questions(Path(settings.questions), settings.sentences // 2, settings.seed)
    random.Random(settings.seed).shuffle(every)
    chosen, fitted = every[::_CHOOSING], [e for i, e in enumerate(every) if i % _CHOOSING]
    fitted += read_written(WRITTEN) * _WRITTEN_TIMES + read_told(TOLD)
    model = UtteranceModel(settings.rank)
    epochs = model.fit(settings, lambda _: fitted, lambda: model.right(chosen))
    strangers = [row for scenario, row in people if scenario in settings.held_out]
    figures = []
    for agent, rows in (("", read_written(HELD_OUT)), ("people's ", strangers)):
        parts = {one: [row for row in rows if row[0] == one] for one in PURPOSES} | {"all": rows}
        figures += [
            {"agent": agent + name, "n": len(own), **model.right(own)}
            for name, own in parts.items()
            if own
        ]
    architecture = {"purposes": list(PURPOSES), "topics": list(TOPICS), **model.architecture}
    return run.finish("utterance", architecture, model.arrays(), figures, {"epochs": epochs})


def made_sentences(count: int, seed: int) -> list[Example]:
    """Return ``count`` sentences of each purpose as (purpose, topic, text), in any order."""
    grammar = read_yaml(GRAMMAR.read_text("utf-8"))
    rng, rows = random.Random(seed), []
    for purpose in PURPOSES:
        topics: Mapping[str, list[str]] = (
            grammar[purpose] if purpose == "wish" else {"": grammar[purpose]}
        )
        # A topic counts as much as it has patterns.
        patterns = [(topic, pattern) for topic, own in topics.items() for pattern in own]
        for i in range(count):
            topic, pattern = patterns[i % len(patterns)]
            text = _written(pattern, grammar["slots"], rng)
            rows.append((purpose, topic, _styled(text, purpose, rng)))
    return rows


@reads_data
def read_people(path: Path) -> list[tuple[str, Example]]:
    """Return the scenario and (purpose, topic, text) of each of people's sentences, as BFCL has them.

    A sentence of few words may be a greeting or thanks: it is left out.
    """
    rows = []
    for name, conversations in json.loads(gzip.decompress(path.read_bytes())).items():
        if "_prereq_" not in name:
            continue
        turns = [turn for one in conversations for turns in one["question"] for turn in turns]
        for text in (str(turn["content"]) for turn in turns if turn["role"] == "user"):
            for sentence in sentences(text):
                if len(sentence.split()) > _FEW:
                    purpose = "question" if sentence.endswith("?") else "statement"
                    rows.append((name.split("_")[-1].split(".")[0], (purpose, "", sentence)))
    return rows


@reads_data
def read_questions(path: Path, count: int, seed: int) -> list[Example]:
    """Return ``count`` questions that people wrote about articles, as SQuAD has them, half unmarked."""
    articles = json.loads(gzip.decompress(path.read_bytes()))["data"]
    paragraphs = (paragraph for article in articles for paragraph in article["paragraphs"])
    texts = [str(qa["question"]).strip() for paragraph in paragraphs for qa in paragraph["qas"]]
    drawn = random.Random(seed).sample(texts, min(count, len(texts)))
    return [("question", "", t.rstrip("?") if i % 2 else t) for i, t in enumerate(drawn)]


def _written(pattern: str, slots: Mapping[str, str], rng: random.Random) -> str:
    text = _CHOICE.sub(lambda match: rng.choice(match[1].split("|")), pattern)

    def fill(match: re.Match[str]) -> str:
        if match[1] in _NAMING and rng.random() < _ANY_WORD:
            return f"{rng.choice(('my', 'the', 'our'))} {rng.choice(english_words())}"
        return rng.choice(slots[match[1]].split("|"))

    while _SLOT.search(text):
        text = _SLOT.sub(fill, text)
    return re.sub(r" +([.,!?:;])", r"\1", " ".join(text.split()))


def _styled(text: str, purpose: str, rng: random.Random) -> str:
    """Return a sentence as people type it: with an opening, in small letters, without its mark."""
    if purpose != "other" and rng.random() < 0.15:
        text = rng.choice(_OPENINGS) + text
    if text[-1].isalnum() and rng.random() < 0.7:
        text += rng.choice((".", ".", ".", "!"))
    elif rng.random() < 0.15:
        text = text.rstrip("?.!")
    if purpose != "other" and rng.random() < 0.06:
        text = f"{text.rstrip('.')}, {rng.choice(('thanks!', 'please.', 'thank you.'))}"
    if rng.random() < 0.2:
        return text.lower()
    return text[:1].upper() + text[1:]


def read_written(path: Path) -> list[Example]:
    """Return the sentences of a file of (purpose and topic, sentence)."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    return [(*head.partition(" ")[::2], text) for head, text in rows]


def read_told(path: Path) -> list[Example]:
    """Return the statements of short stories; a sentence of few words may be a mere exclamation."""
    texts = (row["text"] for row in read_rows(path) if row["story"] >= _SHORT)
    parts = (part for text in texts for part in sentences(text))
    return [("statement", "", p) for p in parts if len(p.split()) > 2 and not p.endswith("?")]
