"""Train the reader of utterances, an adapter on the sentence model; sentences of ``sentences.yaml``.

In people's messages (``people``) a sentence with a question mark is a question, any other a statement;
two scenarios of them are held out. People's ``questions`` are added, half of them without the mark, and
what other writers wrote (``written.tsv``), each sentence several times beside the many made ones.
``held_out.tsv`` (purpose, sentence) is in another style. Nothing is chosen by what is held out.
"""

import gzip
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from stategate.language.sentences import sentences
from stategate.language.utterance import PURPOSES, TOPICS
from stategate.stores.assets.downloads import sha256
from stategate.stores.assets.weights import save_weights
from stategate.stores.files import read_yaml
from stategate.stores.runs import provenance
from stategate.trainers.adapter import WIDTH, AdaptedModel, by_length, padded
from stategate.trainers.instruction.recombined import english_words
from stategate.trainers.settings import UtteranceSettings, open_run
from stategate.trainers.trainer import Figures, Trainer

HERE = Path(__file__).parent
SENTENCES, HELD_OUT, WRITTEN = HERE / "sentences.yaml", HERE / "held_out.tsv", HERE / "written.tsv"
_PIECES = 64  # word pieces of a sentence that are read
_WRITTEN_TIMES = 4  # that each sentence of another writer counts
_CHOICE = re.compile(r"\[([^\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")
_OPENINGS = ("By the way, ", "Hi, ", "Oh and ", "One more thing: ", "Also, ", "So, ", "Well, ")
#: Slots that name things, and the share of them that any English word fills: no thing says a purpose.
_NAMING, _ANY_WORD = ("thing", "who"), 0.3
_AT_ONCE = 64  # sentences that are tested together
_FEW = 4  # words of a sentence that may be a greeting
_CHOOSING = 6  # of the made sentences, one in so many decides which epoch is kept


@dataclass(frozen=True)
class Example:
    """A sentence, with the numbers of its purpose and topic (-1: no wish)."""

    text: str
    purpose: int
    topic: int

    @classmethod
    def of(cls, purpose: str, topic: str, text: str) -> "Example":
        """Return the example of a purpose and a topic by name."""
        return cls(text, PURPOSES.index(purpose), TOPICS.index(topic) if topic else -1)


class UtteranceModel(AdaptedModel):
    """One logit a purpose and a topic, read from the mean state of a sentence."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, nn.Linear(WIDTH, len(PURPOSES) + len(TOPICS)), _PIECES)

    def forward(self, examples: Sequence[Example]) -> Tensor:
        """Return (examples, purposes and topics)."""
        pieces = [self.tokenizer.encode(one.text) for one in examples]
        hidden = self.states(pieces)
        there = padded([one.attention_mask for one in pieces], hidden.shape[1]).unsqueeze(-1)
        logits: Tensor = self.head((hidden * there).sum(1) / there.sum(1))
        return logits


def train(settings: UtteranceSettings) -> dict[str, Any]:
    """Train, test on the sentences of another style, write the checkpoint; return the summary."""
    torch.manual_seed(settings.seed)
    files = (SENTENCES, HELD_OUT, WRITTEN, Path(settings.people), Path(settings.questions))
    facts = {"data": {path.name: sha256(path) for path in files}}
    run = open_run(settings, facts)
    rows = made_sentences(settings.sentences, settings.seed)
    people = read_people(Path(settings.people))
    own = [row for scenario, row in people if scenario not in settings.held_out]
    asked = read_questions(Path(settings.questions), settings.sentences // 2, settings.seed)
    every = [Example.of(*row) for row in [*rows, *own, *asked]]
    random.Random(settings.seed).shuffle(every)
    chosen, fitted = every[::_CHOOSING], [e for i, e in enumerate(every) if i % _CHOOSING]
    fitted += read_written(WRITTEN) * _WRITTEN_TIMES
    model = UtteranceModel(settings.rank)

    def batches(generator: Generator) -> Iterator[Sequence[Example]]:
        for places in by_length([len(one.text) for one in fitted], settings.batch, generator):
            yield [fitted[i] for i in places]

    Trainer(batches, model, lambda b: loss_of(model, b), lambda: right(model, chosen)).fit(settings)
    strangers = [Example.of(*row) for scenario, row in people if scenario in settings.held_out]
    tests = {"": read_written(HELD_OUT), "people's ": strangers}
    figures = [
        {"agent": f"{of}{name}", **row}
        for of, examples in tests.items()
        for name, row in _by_purpose(model, examples).items()
    ]
    meta = {
        "kind": "utterance",
        "architecture": {"purposes": list(PURPOSES), "topics": list(TOPICS), "rank": settings.rank},
        "trained": "cross-entropy: what a made sentence is for, and what a wish is about",
        "seed": settings.seed,
        "metrics": figures,
        **facts,
        **provenance(),
    }
    save_weights(settings.checkpoint, model.arrays(), meta)
    return run.summarise(figures, [])


def made_sentences(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Return ``count`` sentences of each purpose as (purpose, topic, text), in any order."""
    grammar = read_yaml(SENTENCES.read_text("utf-8"))
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


def read_people(path: Path) -> list[tuple[str, tuple[str, str, str]]]:
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


def read_questions(path: Path, count: int, seed: int) -> list[tuple[str, str, str]]:
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
    return [Example.of(*head.partition(" ")[::2], text) for head, text in rows]


def loss_of(model: UtteranceModel, examples: Sequence[Example]) -> Tensor:
    """Return the cross-entropy of purposes, and of the topics of wishes."""
    logits = model(examples)
    purpose = torch.tensor([one.purpose for one in examples])
    topic = torch.tensor([one.topic for one in examples])
    loss = cross_entropy(logits[:, : len(PURPOSES)], purpose)
    if (topic < 0).all():
        return loss
    return loss + cross_entropy(logits[:, len(PURPOSES) :], topic, ignore_index=-1)


@torch.no_grad()
def right(model: UtteranceModel, examples: Sequence[Example]) -> Figures:
    """Return the shares of purposes, and of topics of wishes, that are right."""
    parts = [model(examples[i : i + _AT_ONCE]) for i in range(0, len(examples), _AT_ONCE)]
    logits = torch.cat(parts)
    purposes = logits[:, : len(PURPOSES)].argmax(1).tolist()
    topics = logits[:, len(PURPOSES) :].argmax(1).tolist()
    pairs = list(zip(examples, purposes, topics, strict=True))
    wishes = [one.topic == topic for one, _, topic in pairs if one.topic >= 0]
    return {
        "purposes_right": float(np.mean([one.purpose == p for one, p, _ in pairs])),
        "topics_right": float(np.mean(wishes)) if wishes else 0.0,
    }


@torch.no_grad()
def _by_purpose(model: UtteranceModel, examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Return by purpose the number of sentences, and the share that is read as that purpose."""
    rows: dict[str, dict[str, float]] = {}
    for number, purpose in enumerate(PURPOSES):
        if own := [one for one in examples if one.purpose == number]:
            rows[purpose] = {"n": len(own), **right(model, own)}
    rows["all"] = {"n": len(examples), **right(model, examples)}
    return rows
