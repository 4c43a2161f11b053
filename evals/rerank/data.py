"""Multi-hop questions and the documents to rank: HotpotQA, 2WikiMultihopQA, MuSiQue.

Files ``NAME.dev.jsonl.gz`` (to tune on) and ``NAME.test.jsonl.gz`` (to report), a row a question:
``{id, question, answer, documents: [{title, text}], relevant: [indices]}``.
"""

import gzip
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from stategate.nodes.models.decoders.backend import Document
from stategate.nodes.retrieval.ranking import bm25_over
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json

DATASETS = ("hotpotqa", "2wikimultihopqa", "musique")
Split = Literal["dev", "test"]


@dataclass(frozen=True)
class Question:
    """One question, its candidates, and which of them the answer needs (indices).

    ``missed`` counts the documents that it needs and that are no candidates.
    """

    dataset: str
    id: str
    question: str
    answer: str
    documents: tuple[Document, ...]
    relevant: tuple[int, ...]
    missed: int = 0


def data_folder(given: str | None = None) -> Path:
    """Return the folder of the files: ``given``, ``$STATEGATE_DATA``, or ``../shared/data``.

    Raises ``UserError`` if there is none.
    """
    root = Path(given or os.environ.get("STATEGATE_DATA") or "../shared/data").expanduser()
    for folder in (root / "qa" / "multihop", root):
        if list(folder.glob("*.jsonl.gz")):
            return folder
    raise UserError(
        f"no multi-hop questions in '{given or root.name}': give their folder with --data, "
        "files named hotpotqa.dev.jsonl.gz and so on"
    )


def load_questions(
    folder: Path, split: Split, datasets: Sequence[str] = DATASETS, limit: int | None = None
) -> list[Question]:
    """Return questions, a dataset at a time in turn, so that a part of a run is balanced.

    ``limit`` keeps the first so many of each dataset. Raises ``UserError`` for a bad file.
    """
    columns = []
    for name in datasets:
        path = folder / f"{name}.{split}.jsonl.gz"
        if not path.is_file():
            raise UserError(f"no file {path.name} in '{folder.name}': known are {DATASETS}")
        with user_error_context(f"{path.name} is damaged", "fetch it again"):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                rows = [parse_json(line) for line in lines][:limit]
            columns.append(
                [
                    Question(
                        name,
                        str(row["id"]),
                        str(row["question"]),
                        str(row["answer"]),
                        tuple(Document(str(d["title"]), str(d["text"])) for d in row["documents"]),
                        tuple(int(i) for i in row["relevant"]),
                    )
                    for row in rows
                ]
            )
    return [q for group in zip_longest(*columns) for q in group if q is not None]


def data_hash(folder: Path, split: Split, datasets: Sequence[str]) -> str:
    """Return the SHA-256 over the files' bytes, in the order of ``datasets``."""
    total = hashlib.sha256()
    for name in datasets:
        total.update((folder / f"{name}.{split}.jsonl.gz").read_bytes())
    return total.hexdigest()


def retrieved(questions: Sequence[Question], depth: int) -> list[Question]:
    """Return the questions with other candidates: the ``depth`` best of their dataset by BM25.

    A relevant document that BM25 does not bring counts as missed in every metric.
    """
    by_number: dict[int, Question] = {}
    for dataset in dict.fromkeys(question.dataset for question in questions):
        mine = [(n, q) for n, q in enumerate(questions) if q.dataset == dataset]
        corpus = list(dict.fromkeys(d for _, q in mine for d in q.documents))
        index = bm25_over([document.shown() for document in corpus], stemmed=True)
        for number, question in mine:
            best = np.argsort(-index.scores(question.question), kind="stable")[:depth]
            documents = tuple(corpus[i] for i in best)
            gold = {question.documents[i] for i in question.relevant}
            relevant = tuple(i for i, document in enumerate(documents) if document in gold)
            missed = len(gold) - len(relevant)
            by_number[number] = replace(
                question, documents=documents, relevant=relevant, missed=missed
            )
    return [by_number[number] for number in range(len(questions))]
