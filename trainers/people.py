"""Rows for classifiers out of people's data, in their publishers' formats (``docs/training.md``)."""

import gzip
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stategate.language.sentences import sentences
from stategate.stores.runs import read_rows
from stategate.trainers.adapter import Row
from stategate.trainers.settings import ClassifierSettings, reads_data

_OTHER = 0.25  # weight of a sentence that nobody took for an answer
_QUESTIONS = 300  # of people's questions that are drawn as utterances
_MAX_GREETING = 4  # words of a sentence that may be a greeting


def people_rows(settings: ClassifierSettings) -> Iterator[Row]:
    """Yield the rows of the files that ``settings`` name; some splits are held out."""
    if settings.people:
        with reads_data("people", settings.people):
            yield from _message_rows(_unpacked(settings.people), settings.held_out)
    if settings.questions:
        with reads_data("questions", settings.questions):
            articles = _unpacked(settings.questions)["data"]
            if settings.kind == "judge":
                yield from _answer_rows(articles, settings.held_out)
            else:
                yield from _question_rows(articles, settings.seed)


def _unpacked(path: str) -> Any:
    return json.loads(gzip.decompress(Path(path).read_bytes()))


def _message_rows(conversations: dict[str, Any], held_out: Sequence[str]) -> Iterator[Row]:
    """Yield people's sentences of BFCL's conversations; scenarios held out are the split "people"."""
    for name, those in conversations.items():
        if "_prereq_" not in name:
            continue
        split = "people" if name.split("_")[-1].split(".")[0] in held_out else "train"
        turns = [turn for c in those for turns in c["question"] for turn in turns]
        for text in (str(turn["content"]) for turn in turns if turn["role"] == "user"):
            for sentence in sentences(text):
                if len(sentence.split()) > _MAX_GREETING:
                    label = "question" if sentence.endswith("?") else "statement"
                    yield Row(sentence, label=label, split=split)


def _question_rows(articles: list[Any], seed: int) -> Iterator[Row]:
    """Yield some of the questions of SQuAD's articles, half of them without the mark."""
    paragraphs = (paragraph for article in articles for paragraph in article["paragraphs"])
    texts = [str(qa["question"]).strip() for paragraph in paragraphs for qa in paragraph["qas"]]
    drawn = random.Random(seed).sample(texts, min(_QUESTIONS, len(texts)))
    for i, text in enumerate(drawn):
        yield Row(text.rstrip("?") if i % 2 else text, label="question")


def _answer_rows(articles: list[Any], held_out: Sequence[str]) -> Iterator[Row]:
    """Yield each question of SQuAD 2.0 with each sentence of its paragraph."""
    for title, paragraph in ((a["title"], p) for a in articles for p in a["paragraphs"]):
        passages = _titled(title.replace("_", " "), paragraph["context"])
        for qa in paragraph["qas"]:
            marked = qa["plausible_answers" if qa["is_impossible"] else "answers"]
            chosen = next((p for p in passages if marked and marked[0]["text"] in p), None)
            for passage in passages:
                is_answer = passage == chosen and not qa["is_impossible"]
                yield Row(
                    qa["question"],
                    passage,
                    "yes" if is_answer else "no",
                    weight=1.0 if passage == chosen else _OTHER,
                    split="articles" if title in held_out else "train",
                    group=qa["question"],
                )


def paragraphs_of(folder: str) -> dict[str, str]:
    """Return the titled sentences of the paragraphs in a folder's files, by "HASH#NUMBER"."""
    texts = {}
    with reads_data("paragraphs", folder):
        files = [file for file in Path(folder).iterdir() if file.match("*.dev.jsonl.gz")]
        for file in sorted(files):
            for one in (document for row in read_rows(file) for document in row["documents"]):
                name = hashlib.sha256(one["text"].encode()).hexdigest()[:16]
                for number, part in enumerate(_titled(one["title"], one["text"])):
                    texts[f"{name}#{number}"] = part
    return texts


def _titled(title: str, text: str) -> list[str]:
    """Return the sentences of a text behind its title, as a document's are judged."""
    return [f"{title}. {part}" for part in sentences(text)]
